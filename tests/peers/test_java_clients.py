"""The Java client's producer and consumer on our broker (and, as a control, on its own)."""

from __future__ import annotations

import pytest

from minikafka_client import Producer, ProducerRecord
from tests.interop.clients import CODECS, CONFLUENT, Outgoing, consume, produce
from tests.kit.waiting import work_until
from tests.kit.wire import MakeTopic
from tests.peers.java_clients import JavaClients, JavaConsumer, JavaError, sent_of

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

RECORDS = [
    Outgoing(b"plain"),
    Outgoing(None, b"tombstone"),
    Outgoing(b"", b""),
    Outgoing(b"headers", b"k", (("a", b"1"), ("a", None), ("", b""))),
    Outgoing(bytes(range(256)) * 200, b"large"),
    Outgoing(b"old", b"k", (), 1_000_000_000_000),
    *(Outgoing(b"value %d" % number, b"key %d" % (number % 7)) for number in range(500)),
]


@pytest.mark.parametrize("codec", CODECS)
def test_others_read_what_java_sends(
    java: JavaClients, bootstrap: str, topic: str, codec: str
) -> None:
    placed = java.produce(bootstrap, topic, RECORDS, compression_type=codec, linger_ms=20)
    assert [each["offset"] for each in placed] == list(range(len(RECORDS)))
    received = consume(CONFLUENT, bootstrap, topic, len(RECORDS))
    assert [one.sent for one in received] == RECORDS


@pytest.mark.parametrize("codec", CODECS)
def test_java_reads_what_others_send(
    java: JavaClients, bootstrap: str, topic: str, codec: str
) -> None:
    produce(CONFLUENT, bootstrap, topic, RECORDS, codec)
    with java.consumer("reader", bootstrap) as consumer:
        consumer.ask("assign", partitions=[f"{topic}:0"])
        found = consumer.poll_until(len(RECORDS))
    assert [sent_of(record) for record in found] == RECORDS
    assert [record["offset"] for record in found] == list(range(len(RECORDS)))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_java_is_acknowledged(java: JavaClients, bootstrap: str, topic: str, acks: str) -> None:
    records = [Outgoing(b"%d" % number) for number in range(100)]
    placed = java.produce(
        bootstrap, topic, records, acks=acks, enable_idempotence=acks == "all", batch_size=200
    )
    wanted = [-1] * 100 if acks == "0" else list(range(100))
    assert [each["offset"] for each in placed] == wanted
    received = consume(CONFLUENT, bootstrap, topic, 100)
    assert [one.value for one in received] == [record.value for record in records]


def test_java_learns_why_a_record_is_refused(
    java: JavaClients, bootstrap: str, make_topic: MakeTopic
) -> None:
    small = make_topic(max_message_bytes=1_000)
    with pytest.raises(JavaError) as too_large:
        java.produce(bootstrap, small, [Outgoing(b"x" * 5_000)])
    assert too_large.value.name == "RecordTooLargeException"
    compacted = make_topic(suffix="-compacted", cleanup_policy="compact")
    with pytest.raises(JavaError) as no_key:
        java.produce(bootstrap, compacted, [Outgoing(b"no key")])
    assert no_key.value.name == "InvalidRecordException"


async def test_keys_go_to_the_partitions_that_java_chooses(
    java: JavaClients, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(7)
    keys = [f"key-{number}" * (number % 5 + 1) for number in range(200)]
    records: list[dict[str, object]] = [{"key": key, "value": "v"} for key in keys]
    placed = java.produce_any(bootstrap, topic, records)
    async with Producer(bootstrap) as producer:
        ours = await producer.send_many(topic, [ProducerRecord(b"v", key.encode()) for key in keys])
        chosen = [metadata.partition for metadata in await ours]
    assert chosen == [each["partition"] for each in placed]
    assert len(set(chosen)) == 7


def test_java_finds_times_seeks_and_resumes_where_it_committed(
    java: JavaClients, bootstrap: str, topic: str
) -> None:
    here = f"{topic}:0"
    start_ms = 1_600_000_000_000
    java.produce(
        bootstrap, topic, [Outgoing(b"%d" % n, timestamp_ms=start_ms + n * 1000) for n in range(9)]
    )
    with java.consumer("first", bootstrap, group_id=topic, topics=[topic]) as consumer:
        consumer.poll_until(9)
        times = {here: start_ms + 2001}
        assert consumer.ask("offsets_for_times", times=times) == {here: 3}
        assert consumer.ask("offsets_for_times", times={here: start_ms + 9999}) == {here: None}
        assert consumer.ask("beginning_offsets", partitions=[here]) == {here: 0}
        assert consumer.ask("end_offsets", partitions=[here]) == {here: 9}
        consumer.ask("seek", offsets={here: 7})
        assert consumer.poll_until(11)[-1]["offset"] == 8
        assert consumer.ask("lag", partition=here) == 0
        consumer.ask("commit", offsets={here: 4})
        assert consumer.ask("committed", partitions=[here]) == {here: 4}
    with java.consumer("second", bootstrap, group_id=topic, topics=[topic]) as consumer:
        found = consumer.poll_until(5)
        assert [record["offset"] for record in found] == [4, 5, 6, 7, 8]
        consumer.ask("commit")
        assert consumer.ask("committed", partitions=[here]) == {here: 9}


ASSIGNORS = ["Range", "RoundRobin", "Sticky", "CooperativeSticky"]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_java_members_share_partitions(
    java: JavaClients, bootstrap: str, make_topic: MakeTopic, assignor: str
) -> None:
    topic = make_topic(6)

    def member(name: str) -> JavaConsumer:
        return java.consumer(
            name,
            bootstrap,
            group_id=topic,
            client_id=name,
            topics=[topic],
            heartbeat_interval_ms=200,
            partition_assignment_strategy=f"org.apache.kafka.clients.consumer.{assignor}Assignor",
        )

    records = [{"partition": n % 6, "value": str(n)} for n in range(120)]
    with member("a") as first:
        wait_until_shared([first], [6])
        with member("b") as second, member("c") as third:
            members = [first, second, third]
            wait_until_shared(members, [2, 2, 2])
            described = java.admin(bootstrap, "describe_group", group=topic)
            assert described["state"] == "Stable"
            shown = {each["client_id"]: each["partitions"] for each in described["members"]}
            assert shown == {each.name: each.assignment for each in members}
            java.produce_any(bootstrap, topic, records)
            work_until(
                lambda: sum(len(each.received) for each in members) >= len(records),
                *(each.poll for each in members),
                what="all records",
            )
            values = [value for each in members for value in each.values]
            assert sorted(map(int, map(str, values))) == list(range(len(records)))
            for each in members:
                each.ask("commit")
        wait_until_shared([first], [6])
        offsets = java.admin(bootstrap, "group_offsets", group=topic)
        assert offsets == {f"{topic}:{partition}": 20 for partition in range(6)}
        assert len(first.received) == 40


def test_java_members_of_the_consumer_protocol_share_partitions(
    java: JavaClients, ours: str, name: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(6)

    def member(client: str, **settings: object) -> JavaConsumer:
        return java.consumer(client, ours, group_id=name, topics=[topic], **settings)

    with member("a", group_protocol="consumer", group_instance_id="a") as first:
        wait_until_shared([first], [6])
        java.produce_any(ours, topic, [{"partition": n, "value": str(n)} for n in range(6)])
        work_until(lambda: len(first.received) == 6, first.poll, what="all records")
        first.ask("commit")
        with member("b", group_protocol="consumer") as second:
            wait_until_shared([first, second], [3, 3])
            with member("c", heartbeat_interval_ms=200) as classic:
                wait_until_shared([first, second, classic], [2, 2, 2])
            wait_until_shared([first, second], [3, 3])
        wait_until_shared([first], [6])
        offsets = java.admin(ours, "group_offsets", group=name)
        assert offsets == {f"{topic}:{partition}": 1 for partition in range(6)}
    assert len(first.received) == 6


def wait_until_shared(members: list[JavaConsumer], sizes: list[int]) -> None:
    work_until(
        lambda: sorted(len(each.assignment) for each in members) == sizes,
        *(each.poll for each in members),
        what=f"shares of {sizes}",
        show=lambda: [each.assignment for each in members],
    )


def test_a_static_java_member_keeps_its_partitions(
    java: JavaClients, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(4)

    def member(name: str) -> JavaConsumer:
        return java.consumer(
            name,
            bootstrap,
            group_id=topic,
            group_instance_id=name,
            topics=[topic],
            heartbeat_interval_ms=200,
        )

    with member("stays") as stays:
        with member("leaves") as leaves:
            wait_until_shared([stays, leaves], [2, 2])
            had = leaves.assignment
        with member("leaves") as again:
            wait_until_shared([stays, again], [2, 2])
            assert again.assignment == had
        described = java.admin(bootstrap, "describe_group", group=topic)
        assert sorted(each["instance"] for each in described["members"]) == ["leaves", "stays"]
    java.admin(bootstrap, "remove_all_members", group=topic)
    assert java.admin(bootstrap, "describe_group", group=topic)["state"] == "Empty"


def test_a_pattern_finds_topics_that_are_created_later(
    java: JavaClients, bootstrap: str, make_topic: MakeTopic
) -> None:
    first = make_topic(2, suffix="-a")
    pattern = first.removesuffix("a") + ".*"
    with java.consumer(
        "pattern", bootstrap, group_id=first, pattern=pattern, metadata_max_age_ms=300
    ) as consumer:
        wait_until_shared([consumer], [2])
        make_topic(1, suffix="-b")
        wait_until_shared([consumer], [3])
        assert consumer.assignment[-1].endswith("-b:0")


def test_the_broker_matches_a_subscription_pattern(
    java: JavaClients, ours: str, make_topic: MakeTopic
) -> None:
    """RE2J's syntax; the whole name has to match, and topics may come later (KIP-848)."""
    first = make_topic(2, suffix="-a")
    with java.consumer(
        "matched",
        ours,
        group_id=first,
        group_protocol="consumer",
        subscription_pattern=first.removesuffix("a") + "[ab]",
    ) as consumer:
        wait_until_shared([consumer], [2])
        make_topic(1, suffix="-abc")
        make_topic(1, suffix="-b")
        wait_until_shared([consumer], [3])
        assert [one for one in consumer.assignment if "-abc" in one] == []
