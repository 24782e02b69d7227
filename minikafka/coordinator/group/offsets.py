"""Committed offsets of one shard: the stored ones, and those that are visible to clients."""

from __future__ import annotations

from collections.abc import Iterator

from .records import CommittedOffset, OffsetKey


class _Unsettled:
    """An offset with uncommitted writes, and the value that readers see until then."""

    __slots__ = ("readable", "readable_write_id", "writes")

    def __init__(self, readable: CommittedOffset | None) -> None:
        self.readable = readable
        self.readable_write_id = 0
        self.writes = 0


class Offsets:
    """Offsets by group, topic and partition.

    `replay` follows the log. A write between `begin` and `settle` may be in the log, but could
    still be lost with its leader; meanwhile `read` and `read_all` return the previous value, so
    that no reader sees an offset go back. Decisions (what to expire or delete) are based on the
    state of the log: `stored`.
    """

    def __init__(self) -> None:
        self._stored: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._unsettled: dict[str, dict[tuple[str, int], _Unsettled]] = {}

    def groups(self) -> list[str]:
        return list(self._stored)

    def stored(self, group_id: str) -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        for topic, partitions in self._stored.get(group_id, {}).items():
            for partition, committed in partitions.items():
                yield OffsetKey(group_id, topic, partition), committed

    def has_stored(self, key: OffsetKey) -> bool:
        return self._latest(key) is not None

    def read(self, key: OffsetKey) -> CommittedOffset | None:
        unsettled = self._unsettled.get(key.group_id, {}).get((key.topic, key.partition))
        return self._latest(key) if unsettled is None else unsettled.readable

    def read_all(self, group_id: str) -> dict[str, dict[int, CommittedOffset]]:
        readable = {
            topic: dict(partitions) for topic, partitions in self._stored.get(group_id, {}).items()
        }
        for (topic, partition), unsettled in self._unsettled.get(group_id, {}).items():
            partitions = readable.setdefault(topic, {})
            if unsettled.readable is None:
                partitions.pop(partition, None)
            else:
                partitions[partition] = unsettled.readable
        return {topic: partitions for topic, partitions in readable.items() if partitions}

    def replay(self, key: OffsetKey, committed: CommittedOffset | None) -> None:
        """Apply one record of the log; None is a tombstone."""
        if committed is not None:
            topics = self._stored.setdefault(key.group_id, {})
            topics.setdefault(key.topic, {})[key.partition] = committed
            return
        topics = self._stored.get(key.group_id, {})
        partitions = topics.get(key.topic, {})
        if partitions.pop(key.partition, None) is not None and not partitions:
            del topics[key.topic]
            if not topics:
                del self._stored[key.group_id]

    def begin(self, key: OffsetKey) -> None:
        """A write of this offset is about to be appended; readers keep seeing the current value."""
        group = self._unsettled.setdefault(key.group_id, {})
        place = (key.topic, key.partition)
        if place not in group:
            group[place] = _Unsettled(self._latest(key))
        group[place].writes += 1

    def settle(
        self, key: OffsetKey, committed: CommittedOffset | None, write_id: int, *, is_kept: bool
    ) -> None:
        """A write is below the high watermark (``is_kept``), or was never written.

        Writes may be settled in another order than that of the log (which is that of their ids).
        """
        group = self._unsettled[key.group_id]
        place = (key.topic, key.partition)
        unsettled = group[place]
        if is_kept and write_id > unsettled.readable_write_id:
            unsettled.readable = committed
            unsettled.readable_write_id = write_id
        unsettled.writes -= 1
        if not unsettled.writes:
            del group[place]
            if not group:
                del self._unsettled[key.group_id]

    def _latest(self, key: OffsetKey) -> CommittedOffset | None:
        return self._stored.get(key.group_id, {}).get(key.topic, {}).get(key.partition)
