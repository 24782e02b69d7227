"""From whom a broker fetches what it follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from .partition import Partition
from .replica_fetcher import ReplicaFetcher
from .throttle import Throttle

if TYPE_CHECKING:
    from .broker import Broker


class ReplicaFetchers:
    """The fetchers of a broker, one for each leader that it follows."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._leaders: dict[Partition, int] = {}
        self._nursery: trio.Nursery | None = None
        self._throttle = Throttle(broker.config.follower_replication_throttled_rate)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Fetch until cancelled."""
        async with trio.open_nursery() as self._nursery:
            for fetcher in self._fetchers.values():
                self._nursery.start_soon(fetcher.run)
            task_status.started()
            await trio.sleep_forever()

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from the leader that its machine names."""
        assert partition.follower is not None
        leader_id = partition.follower.leader_id
        if self._leaders.get(partition, leader_id) != leader_id:
            self.unfollow(partition)
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = self._fetchers[leader_id] = ReplicaFetcher(
                self._broker, leader_id, self._throttle
            )
            if self._nursery is not None:
                self._nursery.start_soon(fetcher.run)
        self._leaders[partition] = leader_id
        fetcher.add(partition)

    def set_rate(self, rate_bytes: float) -> None:
        """Bytes per second for throttled replicas (follower.replication.throttled.rate)."""
        if self._throttle.set_rate(rate_bytes):
            for fetcher in self._fetchers.values():
                fetcher.go_on()

    def unfollow(self, partition: Partition) -> None:
        """Fetch a partition no more."""
        leader_id = self._leaders.pop(partition, None)
        if leader_id is not None:
            self._fetchers[leader_id].remove(partition)
