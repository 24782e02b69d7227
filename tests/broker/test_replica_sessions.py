"""The leader's memory of followers: sessions that are lost, positions that make no sense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minikafka.broker.replica_serving import ReplicaServer
from minikafka.broker.replica_sessions import OK, SESSION_LOST
from minikafka.broker.rpc import RpcFailure
from minikafka.metadata.records import RegisterBrokerRecord
from minikafka.protocol.errors import ErrorCode
from tests.broker.replicated import Node, ReplicatedCluster, replicated, until
from tests.broker.test_replication import produce_all

FOLLOWER = 2
EPOCH = 1000


def nobody_hears(answer: Any, records: list[Any]) -> None:
    raise AssertionError(f"{answer} for nonsense, {records}")


class Follower:
    """A follower that says what a test wants."""

    def __init__(self, cluster: ReplicatedCluster, leader: Node) -> None:
        self.cluster = cluster
        server = leader.broker.replicas.server
        assert isinstance(server, ReplicaServer)
        self.server = server
        self.heard: list[tuple[Any, list[Any]]] = []
        self.number = 0
        self.session_id = 7

    def position(self, offset: int, **changes: Any) -> tuple[Any, ...]:
        """Where it is in t-0."""
        fields: dict[str, Any] = {
            "slot": 3,
            "topic_id": self.cluster.image.topics["t"].topic_id,
            "partition": 0,
            "leader_epoch": self.cluster.now().leader_epoch,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": 0,
        }
        return tuple((fields | changes).values())

    def ask(self, *positions: Any, wait_ms: int = 60_000, **changes: Any) -> int:
        """Send a request; returns which one it is."""
        fields: dict[str, Any] = {
            "session_id": self.session_id,
            "number": self.number,
            "broker_epoch": EPOCH,
            "wait_ms": wait_ms,
            "min_bytes": 1,
            "max_bytes": 1_000_000,
            "partition_bytes": 1_000_000,
            "changed": positions,
            "forgotten": (),
            "failed": (),
        }
        self.number += 1
        place = len(self.heard)
        self.server.fetch(
            FOLLOWER,
            tuple((fields | changes).values()),
            (),
            lambda answer, records: self.heard.append((answer, records)),
        )
        return place

    async def news(self, place: int) -> list[tuple[Any, ...]]:
        """The news in an answer."""
        await until(lambda: len(self.heard) > place)
        (status, news), records = self.heard[place]
        assert status == OK
        assert len(records) == sum(one[-1] for one in news)
        return list(news)


async def a_leader(cluster: ReplicatedCluster) -> Follower:
    """One broker that leads t-0, and a follower that only a test speaks for."""
    await cluster.decide(
        RegisterBrokerRecord(
            FOLLOWER, bytes(16), EPOCH, "nowhere.test", 1, "127.0.0.1", 1, is_fenced=False
        )
    )
    await cluster.create_topic("t", (1, FOLLOWER))
    return Follower(cluster, cluster.nodes[1])


async def test_records_are_sent_once_and_wait_for_the_next_position(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        client = cluster.nodes[1].connect()
        await client.produce("t", b"a")
        (one,) = await follower.news(follower.ask(follower.position(0)))
        assert one == (3, 0, 0, 0, 1, -1, -1, True)
        await client.produce("t", b"b")
        # Nothing is known of the first ones yet, so the leader has nothing to say.
        place = follower.ask(wait_ms=10)
        assert [news[-1] for news in await follower.news(place)] == []
        (one,) = await follower.news(follower.ask(follower.position(1, last_fetched_epoch=0)))
        assert one[:5] == (3, 0, 1, 0, 2)
        assert cluster.nodes[1].partition().log.high_watermark == 1


async def test_an_append_answers_who_waits(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        place = follower.ask(follower.position(0))
        assert not follower.heard
        await cluster.nodes[1].connect().produce("t", b"a")
        (one,) = await follower.news(place)
        assert one[-1]


async def test_the_high_watermark_is_told_when_the_wait_is_over(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        await cluster.nodes[1].connect().produce("t", b"a")
        await follower.news(follower.ask(follower.position(0)))
        place = follower.ask(follower.position(1, last_fetched_epoch=0), wait_ms=20)
        assert await follower.news(place) == [(3, 0, 1, 0, 1, -1, -1, False)]
        assert await follower.news(follower.ask(wait_ms=20)) == []


async def test_what_does_not_follow_ends_a_session(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        follower.ask(number=1)
        assert follower.heard == [((SESSION_LOST, ()), [])]
        waiting = follower.ask(follower.position(0), number=0)
        follower.ask(number=7)
        follower.ask(number=1, session_id=8)
        assert [answer[0][0] for answer in follower.heard[1:]] == [SESSION_LOST] * 2
        # Another session: the first one's request is answered as lost.
        follower.ask(follower.position(0), number=0, session_id=9)
        assert follower.heard[waiting + 2][0] == (SESSION_LOST, ())
        follower.server.fetch_wake(FOLLOWER, 7, ())
        follower.server.fetch_wake(99, 9, ())
        assert len(follower.heard) == 4
        follower.server.fetch_wake(FOLLOWER, 9, ())
        assert follower.heard[4] == ((OK, []), [])
        follower.server.forget(FOLLOWER)
        follower.ask(number=1, session_id=9)
        assert follower.heard[5][0][0] == SESSION_LOST


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"fetch_offset": 5}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"last_fetched_epoch": 9}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
async def test_positions_that_make_no_sense_are_told_why(
    tmp_path: Path, changes: dict[str, int], code: ErrorCode
) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        await cluster.lead(1, (1,))
        await produce_all(cluster.nodes[1].connect(), b"a")
        (one,) = await follower.news(follower.ask(follower.position(0, **changes)))
        assert one[1] == code
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            assert one[3:5] == (0, 1)


async def test_a_position_in_another_history_is_told_where_they_part(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        await cluster.lead(1, (1,))
        await produce_all(cluster.nodes[1].connect(), b"a")
        position = follower.position(4, last_fetched_epoch=0)
        (one,) = await follower.news(follower.ask(position))
        assert one == (3, 0, 1, 0, 1, 0, 0, False)


async def test_who_is_no_replica_or_an_older_life_of_one_is_refused(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        (one,) = await follower.news(follower.ask(follower.position(0), broker_epoch=EPOCH - 1))
        assert one[1] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await cluster.create_topic("t2", (1,))
        topic_id = cluster.image.topics["t2"].topic_id
        place = follower.ask(follower.position(0, slot=4, topic_id=topic_id))
        ((_, code, *_),) = await follower.news(place)
        assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_partition_that_is_offline_or_led_elsewhere_is_refused(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        waiting = follower.ask(follower.position(0))
        await cluster.lead(-1, (1,))
        ((_, code, *_),) = await follower.news(waiting)
        assert code == ErrorCode.FENCED_LEADER_EPOCH
        ((_, code, *_),) = await follower.news(follower.ask(follower.position(0)))
        assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await cluster.lead(1, (1,))
        cluster.nodes[1].partition().log.fail(OSError("bad sector"))
        ((_, code, *_),) = await follower.news(follower.ask(follower.position(0)))
        assert code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_nonsense_is_refused(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        for fields in (None, (1, 2), ("x",) * 10, (1, 0, 0, 0, 1, 1, 1, ((1, 2),), (), ())):
            with pytest.raises(RpcFailure):
                follower.server.fetch(FOLLOWER, fields, (), nobody_hears)


async def test_a_slot_that_is_forgotten_is_not_answered(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        follower.ask(follower.position(0), wait_ms=0)
        follower.ask(forgotten=(3, 99))
        await cluster.nodes[1].connect().produce("t", b"a")
        follower.server.fetch_wake(FOLLOWER, 7, ())
        assert follower.heard[-1] == ((OK, []), [])
        assert not cluster.nodes[1].partition().fetchers


async def test_min_bytes_are_waited_for(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        follower = await a_leader(cluster)
        place = follower.ask(follower.position(0), min_bytes=150)
        client = cluster.nodes[1].connect()
        await client.produce("t", b"a")
        await client.produce("t", b"b")
        await client.produce("t", b"c")
        (first, *_) = await follower.news(place)
        assert first[-1]
