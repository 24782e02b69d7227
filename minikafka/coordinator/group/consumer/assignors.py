"""Server-side assignors: which member of a consumer group should read which partition.

An assignor is an object with a name and a method (`Assignor`). It gets who the members are, what
each reads and has in the current target, and how many partitions each topic has; it returns the
target. It has no state and decides the same for the same input. A member names the assignor that it
prefers; the group uses the one that most members prefer, and `group.consumer.assignors` says which
there are, the default first. To add one, add it to `ASSIGNORS`.

``uniform``
    Spreads all partitions evenly, whatever topic they are of, and moves as few as it can.
``range``
    Gives each member a range of each topic, so that members get the same partitions of topics
    that have equally many (co-partitioning). Members are sorted, those with an instance id first.

As in Kafka 4, neither looks at racks.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, Protocol, overload

from .partitions import Partitions


class MemberSpec(NamedTuple):
    """What an assignor knows about a member."""

    instance_id: str | None
    rack_id: str | None
    topics: frozenset[bytes]
    """Ids of the topics it reads; only those that exist."""
    current: Partitions
    """Its part of the current target; may name topics and partitions that are gone."""


class Assignor(Protocol):
    @property
    def name(self) -> str: ...

    def assign(
        self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]
    ) -> Mapping[str, Partitions]:
        """The target: each partition of a topic that is read goes to exactly one of its readers.

        Args:
            members: by member id.
            partition_counts: by topic id, for all topics that a member reads.
        """
        ...


class RangeAssignor:
    name = "range"

    def assign(
        self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]
    ) -> Mapping[str, Partitions]:
        target: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in members}
        readers: dict[bytes, list[str]] = defaultdict(list)
        for member_id in sorted(members, key=lambda one: _static_first(one, members[one])):
            for topic_id in sorted(members[member_id].topics):
                readers[topic_id].append(member_id)
        for topic_id, member_ids in readers.items():
            size, extra = divmod(partition_counts[topic_id], len(member_ids))
            start = 0
            for place, member_id in enumerate(member_ids):
                end = start + size + (place < extra)
                if end > start:
                    target[member_id][topic_id] = frozenset(range(start, end))
                start = end
        return target


def _static_first(member_id: str, member: MemberSpec) -> tuple[bool, str]:
    return member.instance_id is None, member.instance_id or member_id


class UniformAssignor:
    name = "uniform"

    def assign(
        self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]
    ) -> Mapping[str, Partitions]:
        draft = _Draft(members)
        readers: dict[bytes, list[str]] = defaultdict(list)
        for member_id in sorted(members):
            for topic_id in sorted(members[member_id].topics):
                readers[topic_id].append(member_id)
        is_alike = len({member.topics for member in members.values()}) <= 1
        unassigned = draft.keep_current(members, partition_counts)
        if is_alike and members:
            unassigned += draft.cut_to_quota(sum(partition_counts.values()), members)
            draft.spread(sorted(unassigned))
        else:
            draft.give_to_least(readers, sorted(unassigned))
            draft.balance(readers)
        return draft.target()


class _Loads:
    """Members by how many partitions they have; those with equally many in their own order.

    Args:
        load: of each member; changes are reported to `changed`.
        member_ids: in order.
        sign: -1 for those with the most first.
    """

    def __init__(self, load: Mapping[str, int], member_ids: Iterable[str], sign: int = 1) -> None:
        self._load = load
        self._sign = sign
        self._order = {member_id: place for place, member_id in enumerate(member_ids)}
        self._heap = [self._entry(member_id) for member_id in self._order]
        heapq.heapify(self._heap)

    def _entry(self, member_id: str) -> tuple[int, int, str]:
        return self._sign * self._load[member_id], self._order[member_id], member_id

    def changed(self, member_id: str) -> None:
        """A member has more or fewer now; what the heap had about it is outdated."""
        heapq.heappush(self._heap, self._entry(member_id))

    @overload
    def first(self) -> str: ...

    @overload
    def first(self, counts: Callable[[str], bool]) -> str | None: ...

    def first(self, counts: Callable[[str], bool] | None = None) -> str | None:
        """The first member that counts; one that does not comes back when it has `changed`."""
        heap = self._heap
        while heap:
            load, _, member_id = heap[0]
            if load == self._sign * self._load[member_id] and (counts is None or counts(member_id)):
                return member_id
            heapq.heappop(heap)
        return None


class _Draft:
    """A target in the making."""

    def __init__(self, members: Iterable[str]) -> None:
        self._assigned: dict[str, dict[bytes, set[int]]] = {one: {} for one in members}
        self._load: dict[str, int] = dict.fromkeys(self._assigned, 0)

    def keep_current(
        self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]
    ) -> list[tuple[bytes, int]]:
        """Keep what is still valid; returns the partitions that nobody has then."""
        left = {topic_id: set(range(count)) for topic_id, count in partition_counts.items()}
        for member_id, member in members.items():
            for topic_id, indexes in member.current.items():
                if topic_id in member.topics and topic_id in left:
                    kept = left[topic_id] & indexes
                    left[topic_id] -= kept
                    if kept:
                        self._assigned[member_id][topic_id] = kept
                        self._load[member_id] += len(kept)
        return [(topic_id, index) for topic_id, indexes in left.items() for index in indexes]

    def cut_to_quota(self, total: int, member_ids: Collection[str]) -> list[tuple[bytes, int]]:
        """Take from each member what is more than its even share."""
        size, extra = divmod(total, len(member_ids))
        taken: list[tuple[bytes, int]] = []
        for member_id in sorted(member_ids, key=lambda one: (-self._load[one], one)):
            may_have_one_more = extra > 0 and self._load[member_id] > size
            extra -= may_have_one_more
            excess = self._load[member_id] - size - may_have_one_more
            if excess > 0:
                held = [(t, i) for t, indexes in self._assigned[member_id].items() for i in indexes]
                for topic_id, index in sorted(held)[-excess:]:
                    self._remove(member_id, topic_id, index)
                    taken.append((topic_id, index))
        return taken

    def spread(self, partitions: Iterable[tuple[bytes, int]]) -> None:
        """Give each partition to the member that has the fewest: all of them may read it."""
        heap = [(load, member_id) for member_id, load in self._load.items()]
        heapq.heapify(heap)
        for topic_id, index in partitions:
            load, member_id = heap[0]
            self._give(member_id, topic_id, index)
            heapq.heapreplace(heap, (load + 1, member_id))

    def give_to_least(
        self, readers: Mapping[bytes, list[str]], partitions: Iterable[tuple[bytes, int]]
    ) -> None:
        """Give each partition to the reader of its topic that has the fewest, the first of them."""
        for topic_id, some in groupby(partitions, itemgetter(0)):
            least = _Loads(self._load, readers[topic_id])
            for _, index in some:
                member_id = least.first()
                self._give(member_id, topic_id, index)
                least.changed(member_id)

    def balance(self, readers: Mapping[bytes, list[str]]) -> None:
        """Move partitions while that makes two readers of a topic more equal.

        Each move makes the sum of the squared loads smaller, so this ends.
        """
        has_moved = True
        while has_moved:
            has_moved = False
            for topic_id, member_ids in readers.items():
                has_moved |= self._balance_topic(topic_id, member_ids)

    def _balance_topic(self, topic_id: bytes, member_ids: list[str]) -> bool:
        """Move partitions of one topic; whether any was moved."""
        has_moved = False
        fewest = _Loads(self._load, member_ids)
        most = _Loads(self._load, member_ids, sign=-1)
        while True:
            giver = most.first(lambda one: topic_id in self._assigned[one])
            taker = fewest.first()
            if giver is None or self._load[giver] - self._load[taker] < 2:
                return has_moved
            index = max(self._assigned[giver][topic_id])
            self._remove(giver, topic_id, index)
            self._give(taker, topic_id, index)
            for one in (giver, taker):
                fewest.changed(one)
                most.changed(one)
            has_moved = True

    def _give(self, member_id: str, topic_id: bytes, index: int) -> None:
        self._assigned[member_id].setdefault(topic_id, set()).add(index)
        self._load[member_id] += 1

    def _remove(self, member_id: str, topic_id: bytes, index: int) -> None:
        indexes = self._assigned[member_id][topic_id]
        indexes.remove(index)
        self._load[member_id] -= 1
        if not indexes:
            del self._assigned[member_id][topic_id]

    def target(self) -> dict[str, Partitions]:
        return {
            member_id: {topic_id: frozenset(indexes) for topic_id, indexes in topics.items()}
            for member_id, topics in self._assigned.items()
        }


ASSIGNORS: Mapping[str, Assignor] = {one.name: one for one in (UniformAssignor(), RangeAssignor())}
"""All assignors by name; the first is the default."""
