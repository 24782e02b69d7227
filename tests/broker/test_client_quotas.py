"""Client quotas: what a client above its quota is told, and when it is served again.

The clock is a test's own: it jumps ahead whenever everything waits.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.broker.net.server import BoundListener, bind, endpoint_of
from minikafka.broker.security import client_quotas as quota_service
from minikafka.broker.security.client_quotas import ClientQuotas
from minikafka.broker.settings.config import load_config
from minikafka.broker.settings.listeners import PLAINTEXT_LISTENER
from minikafka.metadata.client_quotas import Quotas
from minikafka.metadata.records import QuotaEntityPart
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    alter_client_quotas,
    create_partitions,
    create_topics,
    delete_topics,
    describe_client_quotas,
    fetch,
    metadata,
    produce,
)
from tests.kit.in_process import BrokerUnderTest, running_broker, running_cluster
from tests.kit.wire import (
    WireClient,
    creatable,
    create_request,
    fetch_of,
    fetch_request,
    one_batch,
    produce_request,
    values_of,
)

Entity = dict[str, str | None]
EVERYONE: Entity = {"user": None}


def virtual_now() -> float:
    """The time of the test's clock."""
    return trio.current_time()


async def set_quota(
    client: WireClient,
    entity: Entity,
    version: int = 1,
    *,
    validate_only: bool = False,
    **limits: float | None,
) -> alter_client_quotas.EntryDataResponse:
    """Set quotas of an entity; None removes one."""
    request = alter_client_quotas.Request(
        entries=[
            alter_client_quotas.EntryDataRequest(
                entity=[
                    alter_client_quotas.EntityDataRequest(entity_type=kind, entity_name=name)
                    for kind, name in entity.items()
                ],
                ops=[
                    alter_client_quotas.OpData(
                        key=key, value=0.0 if value is None else value, remove=value is None
                    )
                    for key, value in limits.items()
                ],
            )
        ],
        validate_only=validate_only,
    )
    (answer,) = (await client.ask(request, version, alter_client_quotas.Response)).entries
    return answer


async def quotas_of(
    client: WireClient, version: int = 1
) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    request = describe_client_quotas.Request(components=[], strict=False)
    answer = await client.ask(request, version, describe_client_quotas.Response)
    assert answer.entries is not None
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries
    }


# --- the APIs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1])
async def test_quotas_are_set_described_and_removed(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        assert await quotas_of(client, version) == {}
        await set_quota(client, {"user": "a", "client-id": None}, version, producer_byte_rate=5.0)
        await set_quota(client, {"ip": "10.0.0.1"}, version, connection_creation_rate=2.0)
        assert await quotas_of(client, version) == {
            (("client-id", None), ("user", "a")): {"producer_byte_rate": 5.0},
            (("ip", "10.0.0.1"),): {"connection_creation_rate": 2.0},
        }
        await set_quota(client, {"ip": "10.0.0.1"}, version, connection_creation_rate=None)
        assert len(await quotas_of(client, version)) == 1


async def test_validate_only_changes_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        good = await set_quota(client, EVERYONE, validate_only=True, request_percentage=1.0)
        assert good.error_code == ErrorCode.NONE
        bad = await set_quota(client, EVERYONE, validate_only=True, request_percentage=-1.0)
        assert bad.error_code == ErrorCode.INVALID_REQUEST
        assert [(one.entity_type, one.entity_name) for one in bad.entity] == [("user", None)]
        assert await quotas_of(client) == {}


async def test_quotas_survive_a_restart_and_are_in_force_at_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        await set_quota(under_test.connect(), EVERYONE, producer_byte_rate=1000.0)
    async with running_broker(tmp_path) as under_test:
        assert under_test.broker.client_quotas is not None
        assert list(await quotas_of(under_test.connect())) == [(("user", None),)]


async def test_a_filter_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        part = describe_client_quotas.ComponentData(entity_type="x", match_type=2, match=None)
        answer = await under_test.connect().ask(
            describe_client_quotas.Request(components=[part], strict=False),
            1,
            describe_client_quotas.Response,
        )
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert answer.entries is None


def counts(under_test: BrokerUnderTest) -> bool:
    return under_test.broker.client_quotas is not None


async def test_without_quotas_nothing_is_counted(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        assert not counts(under_test)
        await set_quota(client, EVERYONE, producer_byte_rate=1.0)
        assert counts(under_test)
        await set_quota(client, EVERYONE, producer_byte_rate=None)
        assert not counts(under_test)


# --- bytes ---------------------------------------------------------------------------------------


async def told_to_wait(client: WireClient, value: bytes, acks: int = 1) -> float:
    """Produce a record; returns the seconds that the answer says to wait."""
    request = produce_request("t", one_batch(value), acks=acks)
    answer = await client.ask(request, 9, produce.Response)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    return answer.throttle_time_ms / 1000


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_producer_above_its_quota_is_answered_at_once_and_then_has_to_wait(
    tmp_path: Path, acks: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with running_broker(tmp_path) as under_test:
        client, other = under_test.connect(), under_test.connect()
        await client.create_topic("t")
        await set_quota(client, {"client-id": "test"}, producer_byte_rate=1000.0)
        began = virtual_now()
        seconds = await told_to_wait(client, bytes(20_000), acks)
        assert seconds == pytest.approx(10, abs=0.2)  # 20,000 bytes, 10 windows
        assert virtual_now() < began + seconds
        asked = await client.send(metadata.Request(topics=[]), 9)
        # Another client, even one that may wait for records, is served meanwhile.
        await other.send(fetch_request("t", 0), 11, "another")
        assert values_of(
            (await other.receive(fetch.Response, 11))[1].responses[0].partitions[0]
        ) == [bytes(20_000)]
        assert virtual_now() < began + seconds
        answered, _ = await client.receive(metadata.Response, 9)
        assert answered == asked
        assert virtual_now() >= began + seconds - 0.001


async def test_requests_that_were_sent_together_wait_as_well(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await set_quota(client, {"client-id": "test"}, producer_byte_rate=1000.0)
        began = virtual_now()
        for _ in range(3):
            await client.send(produce_request("t", one_batch(bytes(10_000))), 9)
        waits: list[float] = []
        for _ in range(3):
            _, answer = await client.receive(produce.Response, 9)
            waits.append(round(virtual_now() - began, 1))
            assert answer.throttle_time_ms > 0
        assert waits[1] > waits[0]
        assert waits[2] > waits[1]


async def test_a_produce_without_an_answer_makes_its_connection_wait(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await set_quota(client, {"client-id": "test"}, producer_byte_rate=1000.0)
        began = virtual_now()
        await client.send(produce_request("t", one_batch(bytes(15_000)), acks=0), 9)
        await client.ask(metadata.Request(topics=[]), 9, metadata.Response)
        assert virtual_now() - began >= 5


async def test_connections_of_one_client_share_its_quota(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running_broker(tmp_path) as under_test:
        first, second = under_test.connect(), under_test.connect()
        await first.create_topic("t")
        await set_quota(first, EVERYONE, producer_byte_rate=1000.0)
        assert await told_to_wait(first, bytes(9_000)) == 0
        assert await told_to_wait(second, bytes(9_000)) > 5


async def test_a_consumer_above_its_quota_gets_an_empty_answer_and_the_records_later(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running_broker(tmp_path, "quota.window.size.seconds=1000") as under_test:
        client = under_test.connect()
        await client.create_topic("t", retention_ms="-1")
        for _ in range(4):
            await client.produce("t", bytes(6_000))
        await set_quota(client, EVERYONE, consumer_byte_rate=1.0)
        began = virtual_now()
        one = fetch_of("t", {0: 0}, max_bytes=7_000)
        full = await client.ask(one, 11, fetch.Response)
        assert full.throttle_time_ms == 0
        assert len(values_of(full.responses[0].partitions[0])) == 1
        request = fetch_of("t", {0: 1}, max_bytes=7_000)
        empty = await client.ask(request, 11, fetch.Response)
        assert (empty.responses, empty.error_code) == ([], ErrorCode.NONE)
        assert empty.throttle_time_ms > 0
        told = empty.throttle_time_ms / 1000
        later = await client.ask(request, 11, fetch.Response)
        assert virtual_now() - began >= told - 0.001
        while not later.responses:
            later = await client.ask(request, 11, fetch.Response)
        assert len(values_of(later.responses[0].partitions[0])) == 1


async def test_an_emptied_answer_leaves_the_fetch_session_as_it_was(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running_broker(tmp_path, "quota.window.size.seconds=1000") as under_test:
        client = under_test.connect()
        await client.create_topic("t", retention_ms="-1")
        for _ in range(2):
            await client.produce("t", bytes(6_000))
        opened = await client.ask(
            fetch_of("t", {0: 0}, session_epoch=0, max_bytes=7_000), 11, fetch.Response
        )
        session_id = opened.session_id
        assert session_id
        await set_quota(client, EVERYONE, consumer_byte_rate=1.0)

        def next_fetch(epoch: int) -> fetch.Request:
            return fetch_of(
                "t", {0: 1}, session_id=session_id, session_epoch=epoch, max_bytes=7_000
            )

        first = await client.ask(next_fetch(1), 11, fetch.Response)
        assert first.responses
        emptied = await client.ask(next_fetch(2), 11, fetch.Response)
        assert (emptied.responses, emptied.session_id) == ([], session_id)
        assert emptied.throttle_time_ms > 0
        epoch, later = 3, emptied
        while not later.responses:
            later = await client.ask(next_fetch(epoch), 11, fetch.Response)
            epoch += 1
        assert len(values_of(later.responses[0].partitions[0])) == 1


async def test_an_emptied_full_fetch_begins_no_session(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running_broker(tmp_path, "quota.window.size.seconds=1000") as under_test:
        client = under_test.connect()
        await client.create_topic("t", retention_ms="-1")
        await client.produce("t", bytes(6_000))
        await set_quota(client, EVERYONE, consumer_byte_rate=1.0)
        await client.ask(fetch_of("t", {0: 0}), 11, fetch.Response)
        emptied = await client.ask(fetch_of("t", {0: 0}, session_epoch=0), 11, fetch.Response)
        assert emptied.throttle_time_ms > 0
        assert (emptied.session_id, len(under_test.broker.fetch_sessions)) == (0, 0)


async def test_one_batch_larger_than_the_whole_quota_is_read_all_the_same(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await client.produce("t", bytes(50_000))
        await set_quota(client, EVERYONE, consumer_byte_rate=100.0)
        answer = await client.ask(fetch_request("t", 0), 11, fetch.Response)
        assert values_of(answer.responses[0].partitions[0]) == [bytes(50_000)]


# --- time ----------------------------------------------------------------------------------------


class Clock:
    """A clock that only a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Pause:
    """Something that a handler waits for."""

    def __await__(self) -> Generator[str, None, None]:
        yield "pause"


def service_of(clock: Clock, **limits: float) -> ClientQuotas:
    config = load_config(None, [], {})
    return ClientQuotas({(QuotaEntityPart("user", None),): limits}, config, clock.monotonic)


def test_the_time_that_a_handler_works_counts_and_not_the_time_that_it_waits() -> None:
    clock = Clock()
    charge = service_of(clock, request_percentage=29.0).charge("u", "c", 0)

    async def handler() -> str:
        clock.now += 2
        await Pause()
        clock.now += 1
        return "done"

    async def serve() -> str:
        return await charge.timed(handler())

    steps = serve().__await__()
    assert next(steps) == "pause"
    clock.now += 100
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == "done"
    # 3 seconds in 10 are 30 percent.
    assert charge.finish(ApiKey.METADATA, is_answered=True) == round(10_000 / 29)


def test_a_handler_gets_the_errors_of_what_it_waits_for() -> None:
    charge = service_of(Clock(), request_percentage=1.0).charge("u", "c", 0)

    async def handler() -> str:
        try:
            await Pause()
        except TimeoutError:
            return "too late"
        return "in time"

    async def serve() -> str:
        return await charge.timed(handler())

    steps = serve().__await__()
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.throw(TimeoutError())
    assert end.value.value == "too late"


def work_as_often_as_asked(under_test: BrokerUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on it takes quotas a quarter of a second to look at the clock."""
    spent = 0.0

    def monotonic() -> float:
        nonlocal spent
        spent += 0.25
        return trio.current_time() + spent

    monkeypatch.setattr(under_test.broker.client_quotas, "_monotonic", monotonic)


async def test_a_client_whose_requests_take_too_much_time_has_to_wait_for_a_window_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await client.produce("t", b"x")
        await set_quota(client, EVERYONE, request_percentage=0.1)
        work_as_often_as_asked(under_test, monkeypatch)
        request = metadata.Request(topics=[])
        first = await client.ask(request, 9, metadata.Response)
        assert first.throttle_time_ms == 1000
        began = virtual_now()
        second = await client.ask(request, 9, metadata.Response)
        assert virtual_now() - began >= 0.999
        assert second.throttle_time_ms == 1000
        emptied = await client.ask(fetch_request("t", 0), 11, fetch.Response)
        assert (emptied.throttle_time_ms, emptied.responses) == (1000, [])


async def test_an_answer_that_cannot_say_it_makes_the_client_wait_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await set_quota(client, EVERYONE, request_percentage=0.1)
        work_as_often_as_asked(under_test, monkeypatch)
        began = virtual_now()
        await client.ask(metadata.Request(topics=None), 1, metadata.Response)
        await client.ask(metadata.Request(topics=None), 1, metadata.Response)
        assert virtual_now() - began >= 0.999


# --- controller mutations ------------------------------------------------------------------------


async def created(client: WireClient, name: str, version: int) -> tuple[int, int]:
    """Create a topic of 10 partitions: its error and how long to wait."""
    answer = await client.ask(create_request(creatable(name, 10)), version, create_topics.Response)
    return answer.topics[0].error_code, answer.throttle_time_ms


async def test_topics_above_the_quota_are_refused_and_the_client_has_to_wait(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await set_quota(client, EVERYONE, controller_mutation_rate=0.01)
        assert await created(client, "a", 7) == (ErrorCode.NONE, 0)  # overdrawn by 9.89
        code, wait_ms = await created(client, "b", 7)
        assert code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert 0 < wait_ms <= 989_000
        (connection,) = under_test.connections
        assert connection.is_serving  # nothing: it waits


def test_a_client_that_has_waited_as_told_may_change_topics_again() -> None:
    clock = Clock()
    service = service_of(clock, controller_mutation_rate=0.3)

    def ask() -> tuple[bool, float]:
        charge = service.charge("u", "c", 0)
        return charge.mutations(is_strict=True)(10) is None, charge.wait_seconds

    assert ask() == (True, 0)
    is_done, seconds = ask()
    assert not is_done
    clock.now += round(seconds, 3)
    assert ask() == (True, 0)


async def test_older_clients_get_their_topics_and_then_have_to_wait(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await set_quota(client, EVERYONE, controller_mutation_rate=0.01)
        assert await created(client, "a", 5) == (ErrorCode.NONE, 989_000)
        code, wait_ms = await created(client, "b", 5)
        assert code == ErrorCode.NONE
        assert wait_ms > 0


async def test_added_and_deleted_partitions_count_as_well(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running_broker(tmp_path) as under_test:
        client, other = under_test.connect(), under_test.connect()
        await client.create_topic("t", 3)
        await client.create_topic("u", 3)
        await set_quota(client, EVERYONE, controller_mutation_rate=0.001)
        growth = create_partitions.Topic(name="t", count=5, assignments=None)
        request = create_partitions.Request(topics=[growth], timeout_ms=1000, validate_only=False)
        grown = await client.ask(request, 3, create_partitions.Response)
        assert grown.results[0].error_code == ErrorCode.NONE
        deletion = delete_topics.Request(topic_names=["u"], timeout_ms=1000)
        refused = await client.ask(deletion, 5, delete_topics.Response)
        assert refused.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert refused.throttle_time_ms > 1_000_000
        growth.count = 7
        refused_growth = await other.ask(request, 3, create_partitions.Response)
        assert refused_growth.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert "u" in under_test.broker.image.topics
        assert len(under_test.broker.image.topics["t"].partitions) == 5


async def test_the_controller_counts_mutations_and_the_node_that_was_asked_waits(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path) as cluster:
        controller = await cluster.controller()
        asked = next(node for node in cluster.running if node is not controller)
        client = asked.connect()
        await set_quota(client, {"client-id": "test"}, controller_mutation_rate=20.0)
        await cluster.until(
            lambda: all(node.broker.client_quotas is not None for node in cluster.running)
        )
        request = create_request(creatable("a", 225), creatable("b", 1))
        answer = await client.ask(request, 7, create_topics.Response)
        assert [one.error_code for one in answer.topics] == [
            ErrorCode.NONE,
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ]
        assert 0 < answer.throttle_time_ms <= 250


# --- connections ---------------------------------------------------------------------------------


def test_connections_above_an_address_quota_are_held_and_do_not_count() -> None:
    clock = Clock()
    config = load_config(None, [], {})
    quotas: Quotas = {(QuotaEntityPart("ip", "10.0.0.1"),): {"connection_creation_rate": 1.0}}
    service = ClientQuotas(quotas, config, clock.monotonic)
    assert [service.connection_delay("10.0.0.1") for _ in range(10)] == [0.0] * 10
    assert service.connection_delay("10.0.0.1") == 1.0
    assert service.connection_delay("10.0.0.1") == 1.0
    assert service.connection_delay("10.0.0.2") == 0.0
    clock.now += 11
    assert service.connection_delay("10.0.0.1") == 0.0


async def test_a_connection_above_the_quota_is_closed_after_a_while(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running_broker(tmp_path) as under_test, trio.open_nursery() as nursery:
        await set_quota(under_test.connect(), {"ip": None}, connection_creation_rate=1.0)
        listener = bind("127.0.0.1", 0, 100)
        port = endpoint_of(listener, "127.0.0.1").port
        nursery.start_soon(under_test.server.serve, [BoundListener(listener, PLAINTEXT_LISTENER)])
        streams = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(11)]
        assert await streams[10].receive_some() == b""
        answer = await WireClient(streams[9]).ask(metadata.Request(topics=[]), 9, metadata.Response)
        assert answer.brokers
        under_test.server.stop()
        for stream in streams:
            await trio.aclose_forcefully(stream)


# --- memory and the end --------------------------------------------------------------------------


def test_idle_clients_are_forgotten_and_there_are_never_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quota_service, "CLIENTS_MAX", 100)
    clock = Clock()
    quotas: Quotas = {(QuotaEntityPart("client-id", None),): {"producer_byte_rate": 10.0}}
    service = ClientQuotas(quotas, load_config(None, [], {}), clock.monotonic)
    for number in range(1000):
        service.charge("u", f"c{number}", 50).finish(ApiKey.PRODUCE, is_answered=True)
    assert len(service) == 100
    clock.now += 20
    for number in range(50):
        service.charge("u", f"d{number}", 50).finish(ApiKey.PRODUCE, is_answered=True)
    assert len(service) == 50


def test_a_busy_client_is_not_forgotten_for_others() -> None:
    clock = Clock()
    quotas: Quotas = {(QuotaEntityPart("client-id", None),): {"producer_byte_rate": 10.0}}
    service = ClientQuotas(quotas, load_config(None, [], {}), clock.monotonic)
    for number in range(50):
        clock.now += 1
        service.charge("u", f"c{number}", 1).finish(ApiKey.PRODUCE, is_answered=True)
        charge = service.charge("u", "busy", 100)
        waits = charge.finish(ApiKey.PRODUCE, is_answered=True)
    assert waits > 10_000


async def test_a_broker_that_stops_does_not_wait_for_throttled_clients(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await set_quota(client, EVERYONE, producer_byte_rate=10.0)
        assert await told_to_wait(client, bytes(10_000)) > 900
        await client.send(metadata.Request(topics=[]), 9)
        (connection,) = under_test.connections
        connection.finish()
        assert await client.receive_frame() is None


async def test_a_throttled_client_that_leaves_is_noticed(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await set_quota(client, EVERYONE, producer_byte_rate=10.0)
        assert await told_to_wait(client, bytes(10_000)) > 900
        (connection,) = under_test.connections
        assert connection.is_serving
        await client.stream.aclose()
        connection.end_if_client_left()
        while under_test.connections:
            await trio.testing.wait_all_tasks_blocked()


async def test_a_producer_that_repeats_itself_is_counted_from_the_first_quota_on(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        request = produce_request("t", one_batch(b"x" * 1000))
        for _ in range(3):
            answer = await client.ask(request, 9, produce.Response)
            assert answer.throttle_time_ms == 0
        await set_quota(under_test.connect(), EVERYONE, producer_byte_rate=1.0)
        answer = await client.ask(request, 9, produce.Response)
        assert answer.throttle_time_ms > 0
