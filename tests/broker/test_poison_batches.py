"""Batches whose CRC is right and whose contents are not: refused, or bounded in what they cost."""

from pathlib import Path

import pytest

from minikafka.protocol.crc import crc32c
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import Compression, assemble_batch, compress, encode_batch
from tests.broker.handlers.config_requests import BROKER, SET, change
from tests.kit.in_process import running_broker
from tests.kit.wire import records_of

RECORD = b"\x0e\x00\x00\x00\x01\x02v\x00"
NEXT_RECORD = b"\x0e\x00\x00\x02\x01\x02v\x00"


def poison(payload: bytes, count: int = 1, codec: Compression = Compression.NONE) -> bytes:
    batch = assemble_batch(
        payload, record_count=count, last_offset_delta=count - 1, base_timestamp=5, max_timestamp=5
    )
    batch[22] |= codec
    batch[17:21] = crc32c(batch, 21).to_bytes(4, "big")
    return bytes(batch)


def batch_of(codec: Compression, size_bytes: int) -> bytes:
    return bytes(encode_batch([(b"k", bytes(size_bytes), (), 5)] * 2, compression=codec))


OBVIOUS = [
    pytest.param(poison(b"\xff" * 100), id="garbage"),
    pytest.param(poison(RECORD, 2**31 - 1), id="count"),
    pytest.param(poison(NEXT_RECORD), id="first offset delta"),
    pytest.param(poison(RECORD * 2), id="more records than counted"),
    *(
        pytest.param(poison(b"\xff" * 40, codec=codec), id=f"not {codec.name}")
        for codec in Compression
        if codec is not Compression.NONE
    ),
]
HIDDEN = [
    pytest.param(poison(RECORD + b"\xff" * 8, 2), id="second record"),
    pytest.param(poison(RECORD * 2, 2), id="second offset delta"),
    pytest.param(poison(RECORD + NEXT_RECORD + b"\x00" * 7, 2), id="bytes behind the last"),
    pytest.param(poison(bytes(40), codec=Compression.SNAPPY), id="bare snappy block"),
    *(
        pytest.param(poison(compress(codec, payload), count, codec), id=f"{codec.name} {what}")
        for codec in Compression
        if codec is not Compression.NONE
        for what, payload, count in (
            ("garbage", b"\xff" * 100, 1),
            ("count", RECORD * 4, 5),
        )
    ),
    pytest.param(
        poison(compress(Compression.GZIP, RECORD * 4)[:-8] + bytes(8), codec=Compression.GZIP),
        id="damaged gzip",
    ),
]
SEVERAL = [
    pytest.param(batch_of(codec, size_bytes), id=f"{codec.name} {size_bytes}")
    for codec in Compression
    for size_bytes in (10, 100_000)
]


@pytest.mark.parametrize("batch", OBVIOUS)
async def test_a_poison_batch_is_refused_and_moves_no_offset(tmp_path: Path, batch: bytes) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        answer = await client.produce("t", batch=batch)
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert answer.error_message
        assert (await client.produce("t", b"v")).base_offset == 0


@pytest.mark.parametrize("batch", HIDDEN)
async def test_with_all_records_read_no_poison_is_accepted(tmp_path: Path, batch: bytes) -> None:
    async with running_broker(tmp_path, "minikafka.validate.records=all") as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        answer = await client.produce("t", batch=batch)
        assert (answer.error_code, answer.record_errors) == (ErrorCode.INVALID_RECORD, [])
        assert (await client.produce("t", b"v")).base_offset == 0


@pytest.mark.parametrize("batch", SEVERAL)
async def test_with_all_records_read_what_is_right_is_accepted(
    tmp_path: Path, batch: bytes
) -> None:
    async with running_broker(tmp_path, "minikafka.validate.records=all") as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        assert (await client.produce("t", batch=batch)).base_offset == 0
        assert [one.offset for one in records_of(await client.fetch("t", 0))] == [0, 1]


async def test_how_much_is_read_changes_while_the_broker_runs(tmp_path: Path) -> None:
    hidden = poison(RECORD * 2, 2)
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        assert (await client.produce("t", batch=hidden)).error_code == 0
        setting = ("minikafka.validate.records", SET, "all")
        assert await change(client, BROKER, "", setting) == 0
        await client.create_topic("u")
        for topic in ("t", "u"):
            answer = await client.produce(topic, batch=hidden)
            assert answer.error_code == ErrorCode.INVALID_RECORD


async def test_all_timestamps_are_compared_when_all_records_are_read(tmp_path: Path) -> None:
    late = b"\x10\x00\xfe\xff\xff\xff\x0f\x00\x01\x01\x00"
    late = bytes([2 * (len(late) - 1)]) + late[1:]
    async with running_broker(
        tmp_path,
        "minikafka.validate.records=all",
        f"log.message.timestamp.before.max.ms={2**62}",
    ) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        now_ms = under_test.broker.clock.wall_ms()
        batch = assemble_batch(
            late,
            record_count=1,
            last_offset_delta=0,
            base_timestamp=now_ms,
            max_timestamp=now_ms,
        )
        answer = await client.produce("t", batch=bytes(batch))
        assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
        assert [one.batch_index for one in answer.record_errors] == [0]
