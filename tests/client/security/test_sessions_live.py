"""Our clients log in again before their sessions end (KIP-368), and lose nothing by it."""

from __future__ import annotations

from collections.abc import Generator

import pytest
import trio

import minikafka_client as mk
from minikafka import testing
from minikafka_client.options import Conversation
from minikafka_client.sasl import Plain
from minikafka_client.sync import AdminClient as BlockingAdminClient
from minikafka_client.sync import Reader, Writer
from tests.kit.sasl import LISTENERS, PREFIX, plain_users
from tests.kit.waiting import SECONDS_MAX

SESSION_MS = 2000
LOGINS = 5


@pytest.fixture(scope="module")
def address() -> Generator[str]:
    """A broker whose sessions are short."""
    settings: dict[str, testing.Setting] = {
        "sasl.enabled.mechanisms": "PLAIN",
        "connections.max.reauth.ms": SESSION_MS,
        f"{PREFIX}plain.sasl.jaas.config": plain_users(alice="open"),
    }
    with testing.broker(settings, listen=LISTENERS) as broker:
        yield broker.bootstrap_of("SASL_PLAINTEXT")


class Counting(Plain):
    """Counts how often it logs in."""

    def __init__(self, password: str = "open") -> None:
        super().__init__("alice", password)
        self.logins = 0

    def authenticate(self, host: str) -> Conversation:
        self.logins += 1
        return super().authenticate(host)


async def test_a_producer_sends_on_while_its_sessions_are_renewed(address: str) -> None:
    mechanism, values = Counting(), list[bytes]()
    async with mk.AdminClient(address, sasl=Counting()) as admin:
        await admin.create_topics([mk.NewTopic("trio", 1)])
    async with mk.Producer(address, sasl=mechanism, linger_ms=0) as producer:
        deliveries: list[mk.Delivery] = []
        with trio.fail_after(SECONDS_MAX):
            while mechanism.logins < LOGINS:
                values.append(b"%d" % len(values))
                deliveries.append(await producer.send("trio", values[-1]))
                if len(deliveries) > 100:
                    await deliveries.pop(0)
        for delivery in deliveries:
            await delivery
        assert producer.statistics().connections.disconnects == 0
    received: list[bytes | None] = []
    mechanism = Counting()
    async with mk.Consumer(
        address, sasl=mechanism, group_id="trio", auto_offset_reset="earliest"
    ) as consumer:
        await consumer.subscribe(["trio"])
        with trio.fail_after(SECONDS_MAX):
            while len(received) < len(values) or mechanism.logins < LOGINS:
                received += [record.value for record in await consumer.poll(timeout_ms=100)]
        assert consumer.statistics().connections.disconnects == 0
    assert received == values


async def test_requests_without_an_answer_wait_for_the_renewal_too(address: str) -> None:
    mechanism, count = Counting(), 0
    async with mk.Producer(address, sasl=mechanism, acks=0, linger_ms=0) as producer:
        with trio.fail_after(SECONDS_MAX):
            while mechanism.logins < LOGINS:
                await (await producer.send("unanswered", b"%d" % count))
                count += 1
        assert producer.statistics().connections.disconnects == 0
    async with mk.AdminClient(address, sasl=Counting()) as admin:
        partition = mk.TopicPartition("unanswered", 0)
        with trio.fail_after(SECONDS_MAX):
            while (await admin.list_offsets({partition: mk.LATEST}))[partition].offset < count:
                pass
        assert (await admin.list_offsets({partition: mk.LATEST}))[partition].offset == count


def test_blocking_clients_renew_their_sessions(address: str) -> None:
    mechanism, count = Counting(), 0
    with BlockingAdminClient(address, sasl=Counting()) as admin:
        admin.create_topics([mk.NewTopic("blocking", 1)])
        with Writer(address, sasl=mechanism, linger_ms=0) as writer:
            while mechanism.logins < LOGINS:
                writer.send("blocking", b"%d" % count)
                writer.flush()  # one at a time: there is no need for a million of them
                count += 1
        end = admin.list_offsets({mk.TopicPartition("blocking", 0): mk.LATEST})
    ranges = {partition: (0, found.offset) for partition, found in end.items()}
    with Reader(address, ranges, sasl=Counting()) as reader:
        values = [value for run in reader for value in run.values]
    assert values == [b"%d" % number for number in range(count)]


async def test_a_session_that_cannot_be_renewed_ends_the_connection(address: str) -> None:
    class Forgetful(Counting):
        def authenticate(self, host: str) -> Conversation:
            wrong = Plain("alice", "wrong").authenticate(host)
            right = super().authenticate(host)
            return right if self.logins == 1 else wrong

    mechanism = Forgetful()
    async with mk.AdminClient(address, sasl=mechanism) as admin:

        async def ask_until_it_fails() -> None:
            with trio.fail_after(SECONDS_MAX):
                while True:
                    await admin.describe_cluster()

        with pytest.raises(mk.AuthenticationError):
            await ask_until_it_fails()
