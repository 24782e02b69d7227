"""A segment that lost its end while the broker was down: consumers continue where they were."""

from pathlib import Path

from minikafka.protocol.errors import ErrorCode
from tests.kit.in_process import running_broker
from tests.kit.wire import values_of


async def test_a_consumer_at_the_end_continues_there(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        for number in range(10):
            await client.produce("t", b"%d" % number)
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-150])
    for expected in (10, 11):
        async with running_broker(tmp_path) as under_test:
            client = under_test.connect()
            answer = await client.fetch("t", 10)
            assert (answer.error_code, answer.high_watermark) == (ErrorCode.NONE, expected)
            assert (await client.produce("t", b"new")).base_offset == expected
            assert values_of(await client.fetch("t", 10)) == [b"new"] * (expected - 9)
            assert values_of(await client.fetch("t", 6)) == [b"6", *[b"new"] * (expected - 9)]
