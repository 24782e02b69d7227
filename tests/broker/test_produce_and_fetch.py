"""Produce and Fetch as clients use them: acks, long polls, limits, sessions, durability."""

from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.broker.broker import Broker
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import delete_topics, fetch
from minikafka.protocol.messages import produce as produce_api
from minikafka.protocol.records import Compression, encode_batch, iter_batches
from tests.kit.in_process import running_broker
from tests.kit.wire import (
    WireClient,
    creatable,
    fetch_of,
    fetch_request,
    produce_request,
    records_of,
    values_of,
)


def batch_of(*values: bytes, compression: Compression = Compression.NONE) -> bytes:
    return bytes(encode_batch([(b"k", one, (), 5) for one in values], compression=compression))


async def test_records_are_fetched_from_any_offset(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        await client.produce("t", b"a", b"b")
        await client.produce("t", b"c", partition=1)
        answer = await client.produce("t", b"d")
        assert (answer.base_offset, answer.log_start_offset) == (2, 0)
        assert values_of(await client.fetch("t", 0)) == [b"a", b"b", b"d"]
        assert values_of(await client.fetch("t", 2)) == [b"d"]
        assert values_of(await client.fetch("t", 0, partition=1)) == [b"c"]
        at_the_end = await client.fetch("t", 3)
        assert (values_of(at_the_end), at_the_end.high_watermark) == ([], 3)


@pytest.mark.parametrize(
    ("topic", "partition", "acks", "code"),
    [
        ("nowhere", 0, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 7, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0, 2, ErrorCode.INVALID_REQUIRED_ACKS),
        # min.insync.replicas is bounded by the number of replicas (KIP-966).
        ("strict", 0, -1, ErrorCode.NONE),
        ("strict", 0, 1, ErrorCode.NONE),
        ("t", 0, -1, ErrorCode.NONE),
    ],
)
async def test_invalid_acks_are_refused(
    tmp_path: Path, topic: str, partition: int, acks: int, code: ErrorCode
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await client.create_topic("strict", min_insync_replicas="2")
        answer = await client.produce(topic, b"x", partition=partition, acks=acks)
        assert answer.error_code == code
        if code is not ErrorCode.NONE:
            assert answer.base_offset == -1
            assert answer.error_message


async def test_clients_cannot_write_to_internal_topics(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        await under_test.broker.internal_topics.ensure(under_test.broker.groups.runtime.topic)
        answer = await under_test.connect().produce("__consumer_offsets", b"x")
        assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_refused_batch_does_not_affect_other_partitions(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        broken = bytearray(batch_of(b"broken"))
        broken[-1] ^= 1
        request = produce_request("t", bytes(broken))
        good = produce_request("t", batch_of(b"good"), partition=1)
        request.topic_data[0].partition_data += good.topic_data[0].partition_data
        answer = await client.ask(request, 9, produce_api.Response)
        codes = [one.error_code for one in answer.responses[0].partition_responses]
        assert codes == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE]


async def test_a_refused_batch_names_the_invalid_records(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", cleanup_policy="compact")
        batch = encode_batch([(key, b"v", (), 5) for key in (b"a", None, b"b", None)])
        answer = await client.produce("t", batch=bytes(batch))
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert [one.batch_index for one in answer.record_errors] == [1, 3]
        assert (await client.produce("t", batch=batch_of(b"v"))).record_errors == []


@pytest.mark.usefixtures("autojump_clock")
async def test_null_instead_of_records_is_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        request = produce_request("t", b"")
        request.topic_data[0].partition_data[0].records = None
        response = await client.ask(request, 9, produce_api.Response)
        answer = response.responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert (await client.produce("t", b"v")).base_offset == 0


async def test_a_long_poll_ends_when_its_time_is_up(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "log.cleaner.enable=false") as under_test:
        broker, client = under_test.broker, under_test.connect()
        await open_topic(broker, "t")
        # Only a deadline can end this: nothing is written, and the clock jumps when all tasks wait.
        answer = await client.fetch("t", 0, max_wait_ms=500)
        assert values_of(answer) == []


async def open_topic(broker: Broker, name: str) -> None:
    """Create a topic without a worker thread, which a mock clock would outrun."""
    from minikafka.metadata.records import encode_record
    from minikafka.metadata.topics import create_topic

    decision = create_topic(
        broker.image,
        creatable(name),
        broker.settings.placement(broker.ids.positive_int()),
        broker.ids.topic_id,
    )
    assert all(encode_record(record) for record in decision.records)
    for record in decision.records:
        broker.image.replay(record)
    await broker.replicas.apply(decision.records)


async def test_a_long_poll_waits_for_min_bytes(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client, writer = under_test.connect(), under_test.connect()
        await client.create_topic("t")
        await client.send(fetch_request("t", 0, max_wait_ms=60_000, min_bytes=150), 11)
        await writer.produce("t", b"one")
        await writer.produce("t", b"two")
        await writer.produce("t", b"three")
        _, answer = await client.receive(fetch.Response, 11)
        assert values_of(answer.responses[0].partitions[0])[:2] == [b"one", b"two"]


async def delete_t(client: WireClient) -> None:
    request = delete_topics.Request(topic_names=["t"], timeout_ms=1000)
    answer = await client.ask(request, 3, delete_topics.Response)
    assert answer.responses[0].error_code == ErrorCode.NONE


async def test_deleting_a_topic_ends_the_long_polls_on_it(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client, admin = under_test.connect(), under_test.connect()
        await client.create_topic("t")
        await client.send(fetch_request("t", 0, max_wait_ms=60_000), 11)
        await trio.testing.wait_all_tasks_blocked(0.01)
        await delete_t(admin)
        _, answer = await client.receive(fetch.Response, 11)
        code = answer.responses[0].partitions[0].error_code
        assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_fetch_limits_keep_batches_whole_and_always_return_the_first(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        for number in range(5):
            await client.produce("t", bytes([number]) * 1000)
        response = await client.ask(fetch_request("t", 0, max_bytes=2500), 11, fetch.Response)
        assert len(values_of(response.responses[0].partitions[0])) == 2
        response = await client.ask(fetch_request("t", 3, max_bytes=1), 11, fetch.Response)
        assert values_of(response.responses[0].partitions[0]) == [bytes([3]) * 1000]


async def test_offsets_outside_the_log_are_out_of_range(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await client.produce("t", b"x")
        for offset in (-1, 2, 99):
            answer = await client.fetch("t", offset)
            assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def ask_session(
    client: WireClient, session_id: int, epoch: int, offsets: dict[int, int]
) -> fetch.Response:
    request = fetch_of("t", offsets, min_bytes=0, session_id=session_id, session_epoch=epoch)
    return await client.ask(request, 11, fetch.Response)


async def test_an_incremental_answer_has_only_changed_partitions(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=3)
        first = await ask_session(client, 0, 0, {0: 0, 1: 0, 2: 0})
        assert first.session_id > 0
        assert len(first.responses[0].partitions) == 3
        quiet = await ask_session(client, first.session_id, 1, {})
        assert quiet.responses == []
        await client.produce("t", b"news", partition=1)
        news = await ask_session(client, first.session_id, 2, {})
        assert [one.partition_index for one in news.responses[0].partitions] == [1]
        assert values_of(news.responses[0].partitions[0]) == [b"news"]
        again = await ask_session(client, first.session_id, 3, {1: 1})
        assert again.responses == []
        wrong = await ask_session(client, first.session_id, 3, {})
        assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


async def test_an_old_leader_epoch_is_fenced_and_a_future_one_unknown(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        under_test.broker.partitions["t", 0].leader_epoch = 5
        for epoch, code in (
            (4, ErrorCode.FENCED_LEADER_EPOCH),
            (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
            (5, ErrorCode.NONE),
        ):
            request = fetch_request("t", 0)
            request.topics[0].partitions[0].current_leader_epoch = epoch
            answer = await client.ask(request, 12, fetch.Response)
            assert answer.responses[0].partitions[0].error_code == code


@pytest.mark.parametrize("version", [4, 6, 7, 10, 11, 12, 13, 15, 17, 18])
async def test_every_kind_of_fetch_version_reads_the_same(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await client.produce("t", b"x")
        request = fetch_request("t", 0)
        request.topics[0].topic_id = under_test.broker.image.topics["t"].topic_id
        answer = await client.ask(request, version, fetch.Response)
        assert values_of(answer.responses[0].partitions[0]) == [b"x"]


@pytest.mark.parametrize("version", range(3, 14))
async def test_every_produce_version_appends_the_same(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        request = produce_request("t", batch_of(b"x"))
        request.topic_data[0].topic_id = under_test.broker.image.topics["t"].topic_id
        answer = await client.ask(request, version, produce_api.Response)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert values_of(await client.fetch("t", 0)) == [b"x"]


async def test_an_unknown_topic_id_is_not_an_unknown_name(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        request = fetch_request("t", 0)
        request.topics[0].topic_id = b"0123456789abcdef"
        answer = await client.ask(request, 13, fetch.Response)
        partition = answer.responses[0].partitions[0]
        assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        produce = produce_request("t", batch_of(b"x"))
        produce.topic_data[0].topic_id = b"0123456789abcdef"
        refused = await client.ask(produce, 13, produce_api.Response)
        code = refused.responses[0].partition_responses[0].error_code
        assert code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_session_remembers_the_name_of_a_recreated_topic(
    tmp_path: Path,
) -> None:
    """Kafka keeps the name with the partition: only a new session asks for an unknown id."""
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        topic_id = under_test.broker.image.topics["t"].topic_id

        async def ask(session_id: int, epoch: int, *, names_it: bool) -> tuple[int, int]:
            request = fetch_request("t", 0)
            request.topics[0] = fetch.Topic(
                topic_id=topic_id, partitions=request.topics[0].partitions
            )
            if not names_it:
                request.topics = []
            request.session_id, request.session_epoch = session_id, epoch
            answer = await client.ask(request, 13, fetch.Response)
            assert answer.responses[0].topic_id == topic_id
            return answer.session_id, answer.responses[0].partitions[0].error_code

        session, code = await ask(0, 0, names_it=True)
        assert (session > 0, code) == (True, ErrorCode.NONE)
        await delete_t(client)
        for epoch, names_it in ((1, False), (2, True)):
            code = (await ask(session, epoch, names_it=names_it))[1]
            assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await client.create_topic("t")
        for epoch, names_it in ((3, False), (4, True)):
            code = (await ask(session, epoch, names_it=names_it))[1]
            assert code == ErrorCode.INCONSISTENT_TOPIC_ID
        assert (await ask(0, 0, names_it=True))[1] == ErrorCode.UNKNOWN_TOPIC_ID


async def test_nothing_is_visible_before_the_fsync_that_the_topic_requires(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", flush_messages="1")
        answer = await client.produce("t", b"durable", acks=-1)
        assert answer.error_code == ErrorCode.NONE
        log = under_test.broker.partitions["t", 0].log
        assert log.recovery_point == 1
        assert values_of(await client.fetch("t", 0)) == [b"durable"]


async def test_acks_zero_becomes_visible_with_synchronous_flushes(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", flush_messages="1")
        await client.send(produce_request("t", batch_of(b"x"), acks=0), 9)
        assert values_of(await client.fetch("t", 0, max_wait_ms=60_000)) == [b"x"]


@pytest.mark.parametrize("wanted", list(Compression))
@pytest.mark.parametrize("sent", list(Compression))
async def test_a_topic_stores_batches_in_its_own_compression(
    tmp_path: Path, sent: Compression, wanted: Compression
) -> None:
    name = "uncompressed" if wanted is Compression.NONE else wanted.name.lower()
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", compression_type=name)
        values = [b"value %d" % number * 20 for number in range(10)]
        sent_batch = batch_of(*values, compression=sent)
        assert (await client.produce("t", batch=sent_batch)).error_code == ErrorCode.NONE
        answer = await client.fetch("t", 0)
        assert values_of(answer) == values
        assert [record.timestamp for record in records_of(answer)] == [5] * 10
        assert isinstance(answer.records, memoryview)
        assert [header.compression for _, header in iter_batches(answer.records)] == [wanted]


async def test_everything_survives_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2, retention_ms="12345")
        await client.produce("t", b"a")
        await client.produce("t", b"b", partition=1)
        topic_id = under_test.broker.image.topics["t"].topic_id
        cluster_id = under_test.broker.store.cluster_id
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        assert under_test.broker.store.cluster_id == cluster_id
        assert under_test.broker.image.topics["t"].topic_id == topic_id
        assert under_test.broker.topics["t"].log_config.retention_ms == 12345
        assert values_of(await client.fetch("t", 0)) == [b"a"]
        assert values_of(await client.fetch("t", 0, partition=1)) == [b"b"]
        assert (await client.produce("t", b"c")).base_offset == 1
