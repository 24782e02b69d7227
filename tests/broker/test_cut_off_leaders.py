"""A leader that reaches its clients and no controller: after its session it serves them no longer.

Others may have been elected by then. What it would acknowledge with acks=1 would be truncated when
it comes back, and a consumer would wait at it for records that are elsewhere.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.broker.control.forwarder import Forwarder
from minikafka.broker.control.lifecycle import Lifecycle
from minikafka.broker.quorum.change_error import ChangeError
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import create_topics
from minikafka.protocol.messages import list_offsets as list_offsets_api
from minikafka.protocol.messages import produce as produce_api
from minikafka.protocol.records import encode_batch
from tests.broker.handlers.transactional_wire import end, find, init, stable_values, write
from tests.broker.replicated import replicated
from tests.kit.in_process import ClusterNode, running_broker, running_cluster
from tests.kit.wire import WireClient, assigned, create_request, produce_request, values_of

OK = ErrorCode.NONE
ELSEWHERE = ErrorCode.NOT_LEADER_OR_FOLLOWER
SESSION_S = 60


def batch_of(value: bytes) -> bytes:
    return bytes(encode_batch([(None, value, (), 5)]))


async def latest_offset(client: WireClient) -> tuple[int, int]:
    partition = list_offsets_api.Partition(partition_index=0, timestamp=-1)
    topic = list_offsets_api.Topic(name="t", partitions=[partition])
    request = list_offsets_api.Request(replica_id=-1, topics=[topic])
    answer = await client.ask(request, 5, list_offsets_api.Response)
    one = answer.topics[0].partitions[0]
    return one.error_code, one.offset


@pytest.mark.parametrize("acks", [1, -1])
async def test_after_its_session_a_leader_serves_no_clients(tmp_path: Path, acks: int) -> None:
    setting = f"broker.session.timeout.ms={SESSION_S * 1000}"
    async with replicated(tmp_path, 2, setting) as cluster:
        await cluster.create_topic("t", (1, 2))
        client = cluster.nodes[1].connect()
        lifecycle = cluster.nodes[1].under_test.broker.lifecycle
        log = cluster.nodes[1].partition("t").log
        now = cluster.nodes[1].under_test.broker.clock.monotonic()
        lifecycle.confirmed(now)
        assert (await client.produce("t", b"a", acks=acks)).error_code == OK
        lifecycle.controller_lost()  # for the time of an election nothing changes
        assert (await client.produce("t", b"b", acks=acks)).error_code == OK
        lifecycle.confirmed(now - SESSION_S - 1)
        answer = await client.produce("t", b"c", acks=acks)
        assert answer.error_code == ELSEWHERE
        assert "controller" in (answer.error_message or "")
        assert (await client.fetch("t", 0)).error_code == ELSEWHERE
        assert (await latest_offset(client))[0] == ELSEWHERE
        assert log.log_end_offset == 2
        lifecycle.confirmed(now)
        assert (await client.produce("t", b"d", acks=acks)).base_offset == 2
        assert (await latest_offset(client))[0] == OK


@pytest.mark.parametrize("is_two_phase", [False, True])
async def test_a_transaction_that_is_open_meanwhile_is_neither_extended_nor_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_two_phase: bool
) -> None:
    """Its partition was verified before. A prepared one (KIP-939) is kept and can be committed."""
    setting = "transaction.two.phase.commit.enable=true"
    async with running_broker(tmp_path, setting) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await find(client)
        begun = await init(client, version=6, timeout_ms=60_000, is_two_phase=is_two_phase)
        producer = (begun.producer_id, begun.producer_epoch)
        assert await write(client, producer, b"x", version=12) is OK
        with monkeypatch.context() as patch:
            patch.setattr(Lifecycle, "is_cut_off", property(lambda _: True))
            assert await write(client, producer, b"y", sequence=1, version=12) is ELSEWHERE
            assert (await client.fetch("t", 0)).error_code == ELSEWHERE
        if is_two_phase:
            kept = await init(client, version=6, is_two_phase=True, keeps_prepared=True)
            assert kept.error_code == OK
            assert (kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch) == producer
            producer = (kept.producer_id, kept.producer_epoch)
        else:
            assert await write(client, producer, b"y", sequence=1, version=12) is OK
        assert (await end(client, producer, version=5)).error_code == OK
        while (found := await stable_values(client))[0] < found[1] or found[1] < 2:
            pass
        assert found[2] == 0
        assert values_of(await client.fetch("t", 0))[0] == b"x"


async def test_a_refused_client_is_not_sent_back_to_the_same_broker(tmp_path: Path) -> None:
    setting = f"broker.session.timeout.ms={SESSION_S * 1000}"
    async with replicated(tmp_path, 2, setting) as cluster:
        await cluster.create_topic("t", (1, 2))
        broker = cluster.nodes[1].under_test.broker
        broker.lifecycle.confirmed(broker.clock.monotonic() - SESSION_S - 1)
        request = produce_request("t", batch_of(b"x"))
        answer = await cluster.nodes[1].connect().ask(request, 10, produce_api.Response)
        one = answer.responses[0].partition_responses[0]
        assert (one.error_code, one.current_leader.leader_id) == (ELSEWHERE, -1)
        assert answer.node_endpoints == []


@pytest.mark.parametrize("is_controller", [False, True])
async def test_a_leader_that_no_majority_answers_stops_by_itself(
    tmp_path: Path, is_controller: bool
) -> None:
    """A controller does not confirm itself either."""
    async with running_cluster(tmp_path, "broker.session.timeout.ms=2000") as cluster:
        controller = await cluster.controller()
        cut_off = next(one for one in cluster.running if (one is controller) == is_controller)
        others = [one.node_id for one in cluster.running if one is not cut_off]
        client = await lead_a_topic(cut_off)
        assert (await client.produce("t", b"before")).error_code == OK
        await cluster.kill(*others)
        await cluster.until(lambda: cut_off.broker.lifecycle.is_cut_off)
        assert (await client.produce("t", b"refused")).error_code == ELSEWHERE
        assert (await client.fetch("t", 0)).error_code == ELSEWHERE
        await cluster.start(*others)
        await cluster.until(lambda: not cut_off.broker.lifecycle.is_cut_off)
        assert (await client.fetch("t", 0)).high_watermark == 1


async def lead_a_topic(node: ClusterNode) -> WireClient:
    """Create a topic with one replica there."""
    client = node.connect()
    request = create_request(assigned("t", [node.node_id]))
    created = await client.ask(request, 7, create_topics.Response)
    assert created.topics[0].error_code == OK
    return client


async def test_the_session_begins_with_the_first_heartbeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker may be cut off between that one, which makes it eligible, and the second."""
    confirm, confirmed = Lifecycle.confirmed, set[Lifecycle]()

    def confirm_once(lifecycle: Lifecycle, sent_at: float) -> None:
        if lifecycle not in confirmed:
            confirmed.add(lifecycle)
            confirm(lifecycle, sent_at)

    monkeypatch.setattr(Lifecycle, "confirmed", confirm_once)
    async with running_cluster(tmp_path, "broker.session.timeout.ms=2000") as cluster:
        lifecycles = [one.broker.lifecycle for one in cluster.running]
        await cluster.until(lambda: all(one.is_cut_off for one in lifecycles))
        client = await lead_a_topic(cluster.nodes[1])
        assert (await client.produce("t", b"x")).error_code == ELSEWHERE


async def test_the_heartbeat_that_puts_a_broker_back_into_service_lifts_the_fence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the broker is given then it serves at once, without waiting for another heartbeat."""
    served: list[tuple[bool, bool]] = []
    beat = Lifecycle._beat
    async with running_cluster(tmp_path) as cluster:
        controller = await cluster.controller()
        node = next(one for one in cluster.running if one is not controller)
        broker = node.broker
        await lead_a_topic(node)

        async def watched(lifecycle: Lifecycle) -> None:
            was_cut_off = lifecycle.is_cut_off
            await beat(lifecycle)
            if lifecycle is broker.lifecycle and was_cut_off and lifecycle.is_in_service:
                served.append((lifecycle.is_cut_off, lifecycle.has_lease))

        # Not before: each broker begins cut off, and may be in service after its first heartbeat.
        monkeypatch.setattr(Lifecycle, "_beat", watched)
        while not served:  # a heartbeat that was on its way may still be answered
            with monkeypatch.context() as patch:
                patch.setattr(Forwarder, "ask", unanswered)
                await controller.broker.controller._fence([node.node_id])
                broker.lifecycle.confirmed(broker.clock.monotonic() - SESSION_S)
                broker.lifecycle.controller_lost()
            await cluster.until(lambda: not broker.lifecycle.is_cut_off)
        assert served[0] == (False, False)
        assert (await node.connect().produce("t", b"x")).error_code == OK


async def unanswered(*_: object, **__: object) -> None:
    raise ChangeError(ErrorCode.REQUEST_TIMED_OUT, "the controller did not answer in time")
