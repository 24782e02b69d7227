"""The topology of a streams application: subtopologies, and the topics that each of them uses.

A subtopology is a part of the application that is processed as a whole: one task for each partition
of its source topics. Its *repartition* topics carry records to it from other subtopologies, its
*changelog* topics hold its state. Both kinds are internal: the broker creates them
(`internal_topics`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from minikafka.protocol.messages import streams_group_heartbeat

from ..effects import NewTopic
from .records import CopartitionGroup, KeyValue, SubtopologyValue, TopicInfo, TopologyValue


@dataclass(frozen=True)
class Subtopology:
    """One subtopology.

    Attributes:
        sources: topics that it reads and that somebody else creates.
        changelogs: its state, with 0 partitions: the broker is to decide.
        sinks: repartition topics that it writes to; other subtopologies read them.
        repartitions: repartition topics that it reads, some with 0 partitions.
        copartitioned: sets of topics that it reads and that must have equally many partitions.
    """

    subtopology_id: str
    sources: tuple[str, ...] = ()
    changelogs: tuple[NewTopic, ...] = ()
    sinks: tuple[str, ...] = ()
    repartitions: tuple[NewTopic, ...] = ()
    copartitioned: tuple[frozenset[str], ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """All topics that it reads."""
        return *self.sources, *(topic.name for topic in self.repartitions)


@dataclass(frozen=True)
class Topology:
    epoch: int
    subtopologies: tuple[Subtopology, ...]

    @cached_property
    def readers(self) -> dict[str, str]:
        """The id of the subtopology that reads each topic."""
        return {name: one.subtopology_id for one in self.subtopologies for name in one.inputs}

    @cached_property
    def topics(self) -> frozenset[str]:
        """The names of all topics that the application needs."""
        return frozenset(
            name
            for one in self.subtopologies
            for name in (*one.inputs, *(topic.name for topic in one.changelogs))
        )

    @cached_property
    def stateful(self) -> frozenset[str]:
        """The ids of subtopologies that have state."""
        return frozenset(one.subtopology_id for one in self.subtopologies if one.changelogs)


def requested(topology: streams_group_heartbeat.Topology) -> TopologyValue:
    """The topology of a request in the form in which it is stored."""
    return TopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            SubtopologyValue(
                subtopology_id=one.subtopology_id,
                source_topics=sorted(one.source_topics),
                source_topic_regex=sorted(one.source_topic_regex),
                state_changelog_topics=_infos(one.state_changelog_topics),
                repartition_sink_topics=sorted(one.repartition_sink_topics),
                repartition_source_topics=_infos(one.repartition_source_topics),
                copartition_groups=_copartition_groups(one),
            )
            for one in sorted(topology.subtopologies, key=lambda each: each.subtopology_id)
        ],
    )


def _infos(topics: list[streams_group_heartbeat.TopicInfo]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[
                KeyValue(key=one.key, value=one.value)
                for one in sorted(topic.topic_configs, key=lambda each: each.key)
            ],
        )
        for topic in sorted(topics, key=lambda each: each.name)
    ]


def _copartition_groups(one: streams_group_heartbeat.Subtopology) -> list[CopartitionGroup]:
    """With indexes into the sorted lists, as Kafka stores them."""

    def places(names: list[str], indexes: list[int]) -> list[int]:
        ordered = sorted(names)
        return sorted(ordered.index(names[index]) for index in indexes)

    repartitions = [topic.name for topic in one.repartition_source_topics]
    return [
        CopartitionGroup(
            source_topics=places(one.source_topics, group.source_topics),
            source_topic_regex=places(one.source_topic_regex, group.source_topic_regex),
            repartition_source_topics=places(repartitions, group.repartition_source_topics),
        )
        for group in one.copartition_groups
    ]


def stored(value: TopologyValue) -> Topology:
    return Topology(value.epoch, tuple(_stored_subtopology(one) for one in value.subtopologies))


def _stored_subtopology(one: SubtopologyValue) -> Subtopology:
    repartitions = tuple(map(_internal, one.repartition_source_topics))
    return Subtopology(
        one.subtopology_id,
        tuple(one.source_topics),
        tuple(map(_internal, one.state_changelog_topics)),
        tuple(one.repartition_sink_topics),
        repartitions,
        tuple(
            frozenset(
                [
                    *(one.source_topics[index] for index in group.source_topics),
                    *(repartitions[index].name for index in group.repartition_source_topics),
                ]
            )
            for group in one.copartition_groups
        ),
    )


def _internal(topic: TopicInfo) -> NewTopic:
    configs = tuple((one.key, one.value) for one in topic.topic_configs)
    return NewTopic(topic.name, topic.partitions, topic.replication_factor, configs)
