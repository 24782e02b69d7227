"""The Java client's transactions, on our broker and (as a control) on its own, with our client."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from minikafka_client import FencedError, TopicPartition, TransactionAbortedError
from minikafka_client.sync import AdminClient, Consumer, Producer
from tests.kit.waiting import work_until
from tests.kit.wire import MakeTopic
from tests.peers.java_clients import JavaClients, JavaError, JavaTransactions

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]


@pytest.fixture
def producer(java: JavaClients, bootstrap: str, name: str) -> Generator[JavaTransactions]:
    """A Java producer whose transactional id is that of the test."""
    with java.transactions("producer", bootstrap, name) as opened:
        yield opened


def seen_by_us(bootstrap: str, topic: str, partitions: int = 1) -> list[bytes | None]:
    """What our reader of committed records sees when no transaction is open."""
    where = [TopicPartition(topic, partition) for partition in range(partitions)]
    values: list[bytes | None] = []
    with (
        Consumer(bootstrap) as careless,
        Consumer(
            bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer,
    ):
        ends = careless.end_offsets(where)
        consumer.assign(where)
        work_until(
            lambda: all(consumer.position(each) >= ends[each] for each in where),
            lambda: values.extend(record.value for record in consumer.poll(timeout_ms=100)),
            what=f"the end of {topic}",
        )
    return values


def seen_by_java(
    java: JavaClients, bootstrap: str, topic: str, count: int, isolation_level: str
) -> list[str | None]:
    """The first values that a Java consumer is given."""
    with java.consumer("reader", bootstrap, isolation_level=isolation_level) as consumer:
        consumer.ask("assign", partitions=[f"{topic}:0"])
        consumer.poll_until(count)
        return consumer.values


def test_we_see_what_java_commits_and_nothing_else(
    producer: JavaTransactions, java: JavaClients, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    expected: list[bytes] = []
    for number in range(6):
        producer.ask("begin")
        for partition in range(2):
            producer.send(topic, b"%d of %d" % (number, partition), partition=partition)
        if number % 3 == 1:
            producer.ask("abort")
        else:
            producer.ask("commit")
            expected += [b"%d of %d" % (number, partition) for partition in range(2)]
    assert sorted(map(bytes, filter(None, seen_by_us(bootstrap, topic, 2)))) == sorted(expected)
    everything = seen_by_java(java, bootstrap, topic, 6, "read_uncommitted")
    assert everything == [f"{number} of 0" for number in range(6)]


def test_java_sees_what_we_commit_and_nothing_else(
    java: JavaClients, bootstrap: str, topic: str
) -> None:
    with Producer(bootstrap, transactional_id=topic) as ours:

        def abort() -> None:
            with ours.transaction():
                ours.send(topic, b"aborted").result()
                raise KeyError

        for number in range(3):
            with pytest.raises(KeyError):
                abort()
            with ours.transaction():
                ours.send(topic, b"%d" % number)
                ours.send(topic, b"%d again" % number)
    committed = [text for number in range(3) for text in (f"{number}", f"{number} again")]
    assert seen_by_java(java, bootstrap, topic, 6, "read_committed") == committed
    everything = seen_by_java(java, bootstrap, topic, 9, "read_uncommitted")
    assert everything.count("aborted") == 3


def test_java_waits_for_the_end_of_an_open_transaction(
    producer: JavaTransactions, java: JavaClients, bootstrap: str, topic: str
) -> None:
    with Producer(bootstrap, transactional_id=f"{topic}-ours") as ours:
        with ours.transaction():
            ours.send(topic, b"first")
        producer.ask("begin")
        producer.send(topic, b"open")
        with ours.transaction():
            ours.send(topic, b"behind it")
        with java.consumer("reader", bootstrap, isolation_level="read_committed") as consumer:
            consumer.ask("assign", partitions=[f"{topic}:0"])
            consumer.poll_until(1)
            assert consumer.ask("end_offsets", partitions=[f"{topic}:0"]) == {f"{topic}:0": 2}
            assert consumer.values == ["first"]
            producer.ask("commit")
            consumer.poll_until(3)
            assert consumer.values == ["first", "open", "behind it"]


@pytest.mark.parametrize("commits", [True, False])
def test_java_commits_offsets_in_its_transaction(
    producer: JavaTransactions, java: JavaClients, bootstrap: str, topic: str, commits: bool
) -> None:
    here = TopicPartition(topic, 0)
    with Producer(bootstrap) as plain:
        for number in range(3):
            plain.send(topic, b"%d" % number)
    with java.consumer("member", bootstrap, group_id=topic, topics=[topic]) as member:
        member.poll_until(3)
        producer.ask("begin")
        producer.send(topic, b"result")
        producer.ask("send_offsets", offsets={f"{topic}:0": 3}, consumer="member")
        producer.ask("commit" if commits else "abort")
    # The next transaction begins when the previous one is complete.
    producer.ask("begin")
    producer.send(topic, b"next")
    producer.ask("abort")
    with AdminClient(bootstrap) as admin:
        found = admin.list_group_offsets(topic)
    assert {where: each.offset for where, each in found.items()} == ({here: 3} if commits else {})
    assert seen_by_us(bootstrap, topic)[3:] == ([b"result"] if commits else [])


def test_offsets_of_a_member_that_was_replaced_are_refused(
    producer: JavaTransactions, java: JavaClients, bootstrap: str, topic: str
) -> None:
    with Producer(bootstrap) as plain:
        plain.send(topic, b"0")
    settings = {"group_id": topic, "topics": [topic], "group_instance_id": "static"}
    with java.consumer("old", bootstrap, **settings) as old:
        old.poll_until(1)
        with java.consumer("new", bootstrap, **settings) as new:
            work_until(lambda: bool(new.assignment), new.poll, what="the new member's partition")
            producer.ask("begin")
            with pytest.raises(JavaError) as refused:
                producer.ask("send_offsets", offsets={f"{topic}:0": 1}, consumer="old")
            assert refused.value.name == "FencedInstanceIdException"
            producer.ask("abort")
            producer.ask("begin")
            producer.ask("send_offsets", offsets={f"{topic}:0": 1}, consumer="new")
            producer.ask("commit")


def test_a_new_java_producer_fences_the_old_one(
    producer: JavaTransactions, java: JavaClients, bootstrap: str, topic: str
) -> None:
    producer.ask("begin")
    producer.send(topic, b"zombie")
    with java.transactions("new", bootstrap, topic) as new:
        new.ask("begin")
        new.send(topic, b"new")
        with pytest.raises(JavaError) as fenced:
            producer.ask("commit")
        assert fenced.value.name in ("ProducerFencedException", "InvalidProducerEpochException")
        new.ask("commit")
    assert seen_by_us(bootstrap, topic) == [b"new"]


def test_we_and_java_fence_each_other(
    producer: JavaTransactions, java: JavaClients, bootstrap: str, topic: str
) -> None:
    producer.ask("begin")
    producer.send(topic, b"java's")
    with Producer(bootstrap, transactional_id=topic) as ours:
        with pytest.raises(JavaError) as fenced:
            producer.ask("commit")
        assert fenced.value.name in ("ProducerFencedException", "InvalidProducerEpochException")

        def be_fenced() -> None:
            with ours.transaction():
                ours.send(topic, b"ours").result()
                with java.transactions("new", bootstrap, topic) as new:
                    new.ask("begin")
                    new.send(topic, b"new")
                    new.ask("commit")

        with pytest.raises((FencedError, TransactionAbortedError)):
            be_fenced()
    assert seen_by_us(bootstrap, topic) == [b"new"]


def test_transactions_that_java_left_open_are_aborted_in_time(
    java: JavaClients, bootstrap: str, topic: str
) -> None:
    with java.transactions("slow", bootstrap, topic, transaction_timeout_ms=3_000) as slow:
        slow.ask("begin")
        slow.send(topic, b"too slow")
        with AdminClient(bootstrap) as admin:
            work_until(
                lambda: admin.describe_transactions([topic])[topic].state == "CompleteAbort",
                lambda: seen_by_us(bootstrap, topic),
                what="the abort",
            )
        with pytest.raises(JavaError):
            slow.ask("commit")
    assert seen_by_us(bootstrap, topic) == []
