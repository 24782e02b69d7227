"""A leader's sessions with followers: lost sessions, wrong positions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from minikafka.broker.rpc.operations import (
    REPLICA_FETCH_OK,
    REPLICA_SESSION_LOST,
    ReplicaFetch,
    ReplicaFetchAnswer,
    ReplicaFetchWake,
    ReplicaPosition,
    ReplicaUpdate,
)
from minikafka.metadata.records import BrokerRecord
from minikafka.protocol.errors import ErrorCode
from tests.broker.replicated import Node, ReplicatedCluster, replicated, until
from tests.broker.test_replication import produce_all

FOLLOWER = 2
EPOCH = 1000


class Follower:
    """A follower that sends what a test wants."""

    def __init__(self, cluster: ReplicatedCluster, leader: Node) -> None:
        self.cluster = cluster
        server = leader.broker.replicas.server
        assert server is not None
        self.server = server
        self.answers: list[tuple[ReplicaFetchAnswer, Sequence[Any]]] = []
        self.number = 0
        self.session_id = 7

    def position(self, offset: int, **changes: Any) -> ReplicaPosition:
        """A position in t-0."""
        fields: dict[str, Any] = {
            "slot": 3,
            "topic_id": self.cluster.image.topics["t"].topic_id,
            "partition": 0,
            "leader_epoch": self.cluster.now().leader_epoch,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": 0,
        }
        return ReplicaPosition(**(fields | changes))

    def ask(self, *positions: Any, wait_ms: int = 60_000, **changes: Any) -> int:
        """Send a request; returns the place of its answer."""
        fields: dict[str, Any] = {
            "session_id": self.session_id,
            "number": self.number,
            "broker_epoch": EPOCH,
            "max_wait_ms": wait_ms,
            "min_bytes": 1,
            "max_bytes": 1_000_000,
            "partition_max_bytes": 1_000_000,
            "positions": positions,
            "forgotten": (),
            "failed": (),
        }
        self.number += 1
        place = len(self.answers)
        self.server.fetch(
            FOLLOWER,
            ReplicaFetch(**(fields | changes)),
            (),
            lambda answer, records: self.answers.append((answer, records)),
        )
        return place

    async def updates(self, place: int) -> list[ReplicaUpdate]:
        """The updates in an answer."""
        await until(lambda: len(self.answers) > place)
        (status, updates), records = self.answers[place]
        assert status == REPLICA_FETCH_OK
        assert len(records) == sum(one[-1] for one in updates)
        return list(updates)


async def a_leader(cluster: ReplicatedCluster) -> Follower:
    """A broker that leads t-0, and a follower that the test plays."""
    await cluster.decide(
        BrokerRecord(FOLLOWER, bytes(16), EPOCH, "nowhere.test", 1, "127.0.0.1", 1, is_fenced=False)
    )
    await cluster.create_topic("t", (1, FOLLOWER))
    return Follower(cluster, cluster.nodes[1])


async def test_records_are_sent_once_until_the_next_position(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        client = cluster.nodes[1].connect()
        await client.produce("t", b"a")
        (one,) = await follower.updates(follower.ask(follower.position(0)))
        assert one == (3, 0, 0, 0, 1, -1, -1, True)
        await client.produce("t", b"b")
        # The first records are not acknowledged yet, so the leader sends nothing.
        place = follower.ask(wait_ms=10)
        assert [one[-1] for one in await follower.updates(place)] == []
        (one,) = await follower.updates(follower.ask(follower.position(1, last_fetched_epoch=0)))
        assert one[:5] == (3, 0, 1, 0, 2)
        assert cluster.nodes[1].partition().log.high_watermark == 1


async def test_an_append_answers_a_waiting_fetch(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        place = follower.ask(follower.position(0))
        assert not follower.answers
        await cluster.nodes[1].connect().produce("t", b"a")
        (one,) = await follower.updates(place)
        assert one[-1]


async def test_the_high_watermark_is_sent_when_the_wait_is_over(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        await cluster.nodes[1].connect().produce("t", b"a")
        await follower.updates(follower.ask(follower.position(0)))
        place = follower.ask(follower.position(1, last_fetched_epoch=0), wait_ms=20)
        assert await follower.updates(place) == [(3, 0, 1, 0, 1, -1, -1, False)]
        assert await follower.updates(follower.ask(wait_ms=20)) == []


async def test_a_request_out_of_sequence_ends_the_session(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        follower.ask(number=1)
        assert follower.answers == [((REPLICA_SESSION_LOST, ()), ())]
        waiting = follower.ask(follower.position(0), number=0)
        follower.ask(number=7)
        follower.ask(number=1, session_id=8)
        assert [answer[0][0] for answer in follower.answers[1:]] == [REPLICA_SESSION_LOST] * 2
        # Another session: the first one's request is answered as lost.
        follower.ask(follower.position(0), number=0, session_id=9)
        assert follower.answers[waiting + 2][0] == (REPLICA_SESSION_LOST, ())
        follower.server.fetch_wake(FOLLOWER, ReplicaFetchWake(7), ())
        follower.server.fetch_wake(99, ReplicaFetchWake(9), ())
        assert len(follower.answers) == 4
        follower.server.fetch_wake(FOLLOWER, ReplicaFetchWake(9), ())
        assert follower.answers[4] == ((REPLICA_FETCH_OK, ()), [])
        follower.server.forget(FOLLOWER)
        follower.ask(number=1, session_id=9)
        assert follower.answers[5][0][0] == REPLICA_SESSION_LOST


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"fetch_offset": 5}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"last_fetched_epoch": 9}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
async def test_wrong_positions_get_an_error(
    tmp_path: Path, changes: dict[str, int], code: ErrorCode
) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        await cluster.lead(1, (1,))
        await produce_all(cluster.nodes[1].connect(), b"a")
        (one,) = await follower.updates(follower.ask(follower.position(0, **changes)))
        assert one[1] == code
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            assert one[3:5] == (0, 1)


async def test_a_diverging_position_gets_the_point_of_divergence(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        await cluster.lead(1, (1,))
        await produce_all(cluster.nodes[1].connect(), b"a")
        position = follower.position(4, last_fetched_epoch=0)
        (one,) = await follower.updates(follower.ask(position))
        assert one == (3, 0, 1, 0, 1, 0, 0, False)


async def test_a_broker_without_a_replica_or_with_an_old_epoch_is_refused(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        (one,) = await follower.updates(follower.ask(follower.position(0), broker_epoch=EPOCH - 1))
        assert one[1] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await cluster.create_topic("t2", (1,))
        topic_id = cluster.image.topics["t2"].topic_id
        place = follower.ask(follower.position(0, slot=4, topic_id=topic_id))
        ((_, code, *_),) = await follower.updates(place)
        assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_partition_that_is_offline_or_led_elsewhere_is_refused(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        waiting = follower.ask(follower.position(0))
        await cluster.lead(-1, (1,))
        ((_, code, *_),) = await follower.updates(waiting)
        assert code == ErrorCode.FENCED_LEADER_EPOCH
        ((_, code, *_),) = await follower.updates(follower.ask(follower.position(0)))
        assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await cluster.lead(1, (1,))
        cluster.nodes[1].partition().log.fail(OSError("bad sector"))
        ((_, code, *_),) = await follower.updates(follower.ask(follower.position(0)))
        assert code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_forgotten_slot_is_not_answered(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        follower.ask(follower.position(0), wait_ms=0)
        follower.ask(forgotten=(3, 99))
        await cluster.nodes[1].connect().produce("t", b"a")
        follower.server.fetch_wake(FOLLOWER, ReplicaFetchWake(7), ())
        assert follower.answers[-1] == ((REPLICA_FETCH_OK, ()), [])
        assert not cluster.nodes[1].partition().fetchers


async def test_a_fetch_waits_for_min_bytes(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        place = follower.ask(follower.position(0), min_bytes=150)
        client = cluster.nodes[1].connect()
        await client.produce("t", b"a")
        await client.produce("t", b"b")
        await client.produce("t", b"c")
        (first, *_) = await follower.updates(place)
        assert first[-1]
