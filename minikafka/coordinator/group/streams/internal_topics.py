"""Whether a topology can run on the topics that there are, and which topics are missing.

The source topics have to exist. From their partition counts follow those of the internal topics::

    a repartition topic    as its application asks; else as many partitions as the largest topic
                           that a subtopology reads which writes to it; copartitioned topics get
                           equally many
    a changelog topic      as many as the subtopology has tasks
    tasks of a subtopology as many as the largest topic that it reads has partitions
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from ..effects import NewTopic
from ..topics import Topics
from .topology import Subtopology, Topology

_NAMES_SHOWN_MAX = 10


class Status(IntEnum):
    """What is wrong with a group or about to happen to it, as answers to heartbeats say it."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class Problem(NamedTuple):
    status: Status
    detail: str


class InvalidTopologyError(Exception):
    """A topology that could not run on any topics."""


class Configured(NamedTuple):
    """What a topology comes to on the topics that there are.

    Attributes:
        task_counts: the number of tasks by subtopology; empty if it cannot be known.
        missing: internal topics that have to be created, with their partition counts.
        problem: why no task can be assigned; None if they can be.
    """

    task_counts: Mapping[str, int] = MappingProxyType({})
    missing: tuple[NewTopic, ...] = ()
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class _Unsuitable(Exception):
    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(status, detail)


def configure(topology: Topology, topics: Topics) -> Configured:
    """Decide about internal topics.

    Raises:
        InvalidTopologyError: no topics could satisfy this topology.
    """
    try:
        return _Configuring(topology, topics).run()
    except _Unsuitable as unsuitable:
        return Configured(problem=unsuitable.problem)


def hash_of_topics(topology: Topology, topics: Topics) -> int:
    """A number that changes when one of the topics appears, goes, or gets more partitions."""
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(topology.topics):
        topic = topics.by_name(name)
        if topic is not None:
            digest.update(topic.topic_id + struct.pack(">i", topic.partition_count))
    return int.from_bytes(digest.digest(), "big", signed=True)


class _Configuring:
    def __init__(self, topology: Topology, topics: Topics) -> None:
        self._topology = topology
        self._topics = topics
        repartitions = {
            topic.name: topic for one in topology.subtopologies for topic in one.repartitions
        }
        self._fixed = {name: one.partitions for name, one in repartitions.items() if one.partitions}
        self._flexible = sorted(set(repartitions) - set(self._fixed))
        self._decided = dict(self._fixed)

    def run(self) -> Configured:
        self._check_sources()
        self._decide_repartitions()
        for one in self._topology.subtopologies:
            for copartitioned in one.copartitioned:
                self._copartition(copartitioned)
        counts = {one.subtopology_id: self._tasks_of(one) for one in self._topology.subtopologies}
        missing = tuple(self._missing(counts))
        problem = None
        if missing:
            names = _shown(topic.name for topic in missing)
            problem = Problem(
                Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}"
            )
        return Configured(counts, missing, problem)

    def _count(self, name: str) -> int | None:
        """The partitions that a topic has, or will have; None if that is not decided yet."""
        topic = self._topics.by_name(name)
        return self._decided.get(name) if topic is None else topic.partition_count

    def _check_sources(self) -> None:
        missing = {
            name
            for one in self._topology.subtopologies
            for name in one.sources
            if self._topics.by_name(name) is None
        }
        if missing:
            raise _Unsuitable(
                Status.MISSING_SOURCE_TOPICS, f"Source topics {_shown(missing)} are missing."
            )

    def _decide_repartitions(self) -> None:
        """A topic may be written by a subtopology that reads another one: go on until all are."""
        undecided = list(self._flexible)
        while undecided:
            left: list[str] = []
            for name in undecided:
                counts = [
                    count
                    for one in self._topology.subtopologies
                    if name in one.sinks
                    for source in one.inputs
                    if (count := self._count(source)) is not None
                ]
                if counts:
                    self._decided[name] = max(counts)
                else:
                    left.append(name)
            if left == undecided:
                raise InvalidTopologyError(
                    f"Failed to compute the number of partitions of {_shown(left)}: no "
                    "subtopology whose own topics are known writes to these repartition topics."
                )
            undecided = left

    def _copartition(self, names: frozenset[str]) -> None:
        fixed = {name: self._fixed[name] for name in names if name in self._fixed}
        flexible = [name for name in names if name in self._flexible]
        external = {
            name: self._count(name) or 0
            for name in names
            if name not in self._fixed and name not in self._flexible
        }
        if len(set(external.values())) > 1:
            _not_copartitioned(external)
        if external:
            count = next(iter(external.values()))
        elif fixed:
            count = next(iter(fixed.values()))
        else:
            count = max((self._decided[name] for name in flexible), default=0)
        if any(each != count for each in fixed.values()):
            _not_copartitioned({**external, **fixed})
        for name in flexible:
            self._decided[name] = count

    def _tasks_of(self, one: Subtopology) -> int:
        counts = [count for name in one.inputs if (count := self._count(name)) is not None]
        if not counts:
            raise InvalidTopologyError(f"Subtopology {one.subtopology_id} has no source topics.")
        return max(counts)

    def _missing(self, counts: Mapping[str, int]) -> list[NewTopic]:
        wanted: dict[str, tuple[NewTopic, int]] = {}
        for one in self._topology.subtopologies:
            for topic in one.repartitions:
                wanted[topic.name] = topic, self._decided[topic.name]
            for topic in one.changelogs:
                if topic.name not in one.sources:
                    wanted[topic.name] = topic, counts[one.subtopology_id]
        missing: list[NewTopic] = []
        for name, (topic, count) in sorted(wanted.items()):
            found = self._topics.by_name(name)
            if found is None:
                missing.append(NewTopic(name, count, topic.replication_factor, topic.configs))
            elif found.partition_count != count:
                raise _Unsuitable(
                    Status.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Existing topic {name} has different number of partitions: expected {count}, "
                    f"found {found.partition_count}",
                )
        return missing


def _not_copartitioned(counts: Mapping[str, int]) -> None:
    shown = ", ".join(f"{name}: {count}" for name, count in sorted(counts.items()))
    raise _Unsuitable(
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        f"Topics that are read together must have equally many partitions: {shown}",
    )


def _shown(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = len(ordered) - _NAMES_SHOWN_MAX
    listed = ", ".join(ordered[:_NAMES_SHOWN_MAX])
    return f"{listed} and {more} more" if more > 0 else listed
