"""A cluster without processes: an image, and a controller's decisions replayed on it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

from minikafka.metadata import brokers as metadata_brokers
from minikafka.metadata.alter_partition import IsrProposal, alter_partitions
from minikafka.metadata.decision import Decision, Refusal
from minikafka.metadata.elections import ElectionKind, elect_leaders
from minikafka.metadata.image import RESOURCE_TOPIC, MetadataImage, TopicImage
from minikafka.metadata.placement import Placement
from minikafka.metadata.reassignments import Reassignment, reassign_partitions
from minikafka.metadata.records import (
    NO_LEADER,
    BrokerRecord,
    PartitionRecord,
    SettingRecord,
    decode_record,
    encode_record,
)
from minikafka.metadata.replication_rules import ReplicationRules, rules_of_topic
from minikafka.metadata.setting_changes import settle_partitions
from minikafka.metadata.topics import create_topic
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import create_topics
from minikafka.replication import IsrMember

Result = TypeVar("Result")

ONE_BROKER = Placement((1,), 1, 1)
THREE_BROKERS = Placement((1, 2, 3), 4, 2)


def topic_ids() -> Callable[[], bytes]:
    """Ids 1, 2, 3, ..."""
    numbers = count(1)
    return lambda: next(numbers).to_bytes(16, "big")


def wanted(
    name: str,
    partitions: int = -1,
    factor: int = -1,
    *,
    settings: dict[str, str | None] | None = None,
    assignments: list[tuple[int, list[int]]] | None = None,
) -> create_topics.CreatableTopic:
    """A topic as CreateTopics asks for it."""
    return create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[
            create_topics.CreatableTopicConfig(name=key, value=value)
            for key, value in (settings or {}).items()
        ],
        assignments=[
            create_topics.CreatableReplicaAssignment(partition_index=number, broker_ids=nodes)
            for number, nodes in assignments or []
        ],
    )


def replay(image: MetadataImage, decision: Decision[object]) -> None:
    """Commit a decision: what a metadata log holds is what is replayed."""
    for record in decision.records:
        image.replay(decode_record(encode_record(record)))


def replicas(topic: TopicImage | Refusal) -> list[tuple[int, ...]]:
    """The replicas of each partition of a topic that was made."""
    assert isinstance(topic, TopicImage), topic
    return [partition.replicas for partition in topic.partitions]


class Cluster:
    """Brokers, topics and a controller: every decision is checked and committed at once.

    After each the rules of `minikafka.metadata.partition_change` must hold, and a snapshot must
    give the same image.
    """

    def __init__(self, brokers: int = 0, **rules: Any) -> None:
        self.image = MetadataImage()
        self.defaults = ReplicationRules(**rules)
        self._new_id = topic_ids()
        self._incarnations = count(1)
        for broker_id in range(1, brokers + 1):
            self.join(broker_id)

    def commit(self, decision: Decision[Result]) -> Result:
        """Replay a decision and check what it leads to."""
        before = {
            (topic.topic_id, one.partition): one
            for topic in self.image.topics.values()
            for one in topic.partitions
        }
        replay(self.image, decision)
        for topic in self.image.topics.values():
            rules = rules_of_topic(self.image.settings, topic.name, self.defaults)
            for after in topic.partitions:
                check_partition(self.image, rules, after)
                old = before.get((topic.topic_id, after.partition))
                if old is not None and old != after:
                    check_change(self.image, old, after)
        check_snapshot(self.image)
        return decision.result

    # --- brokers -------------------------------------------------------------------------------

    def registration(
        self, broker_id: int, previous_broker_epoch: int = -1
    ) -> metadata_brokers.Registration:
        """What a new process of a broker says."""
        incarnation = next(self._incarnations).to_bytes(16, "big")
        return metadata_brokers.Registration(
            *(broker_id, incarnation, "host", 9000 + broker_id, "host", 9500 + broker_id),
            previous_broker_epoch=previous_broker_epoch,
        )

    def register(
        self, broker_id: int, *, is_clean: bool = False, is_caught_up: bool = False
    ) -> BrokerRecord:
        """Start a broker's process again; it is fenced."""
        epoch = self.image.brokers[broker_id].broker_epoch if is_clean else -1
        made = self.commit(
            metadata_brokers.register_broker(
                self.image,
                self.registration(broker_id, epoch),
                self.defaults,
                is_old_alive=False,
                is_caught_up=is_caught_up,
            )
        )
        assert isinstance(made, BrokerRecord), made
        assert made == self.image.brokers[broker_id]
        return made

    def join(self, broker_id: int, *, is_clean: bool = False) -> BrokerRecord:
        """Start a broker's process again and put it into service."""
        self.register(broker_id, is_clean=is_clean)
        self.unfence(broker_id)
        return self.image.brokers[broker_id]

    def epoch(self, broker_id: int) -> int:
        """The epoch of a broker's registration."""
        return self.image.brokers[broker_id].broker_epoch

    def unfence(self, broker_id: int) -> None:
        epoch = self.epoch(broker_id)
        refusal = self.commit(
            metadata_brokers.unfence_broker(self.image, broker_id, epoch, self.defaults)
        )
        assert refusal is None
        assert self.image.is_active(broker_id)

    def fence(self, *broker_ids: int) -> list[int]:
        return self.commit(metadata_brokers.fence_brokers(self.image, broker_ids, self.defaults))

    def stop(self, broker_id: int, *, is_forced: bool = False) -> metadata_brokers.ShutdownProgress:
        """Ask whether a broker may stop."""
        progress = self.commit(
            metadata_brokers.controlled_shutdown(
                self.image, broker_id, self.epoch(broker_id), self.defaults, is_forced=is_forced
            )
        )
        assert isinstance(progress, metadata_brokers.ShutdownProgress), progress
        return progress

    # --- topics --------------------------------------------------------------------------------

    def placement(self, start: int = 0) -> Placement:
        return Placement.of(self.image, 1, 1, start)

    def topic(self, name: str, *assignments: list[int], **settings: str | None) -> TopicImage:
        """Make a topic whose partitions have the given replicas."""
        made = self.commit(
            create_topic(
                self.image,
                wanted(
                    name,
                    settings={key.replace("_", "."): value for key, value in settings.items()},
                    assignments=list(enumerate(assignments)),
                ),
                self.placement(),
                self._new_id,
            )
        )
        assert isinstance(made, TopicImage), made
        return made

    def set(self, name: str, value: str | None, topic: str = "t") -> None:
        decision = Decision[None]([SettingRecord(RESOURCE_TOPIC, topic, name, value)], None)
        effects = settle_partitions(self.image, decision.records, self.defaults)
        self.commit(Decision([*decision.records, *effects], None))

    def at(self, topic: str = "t", number: int = 0) -> PartitionRecord:
        """One partition as it is now."""
        return self.image.topics[topic].partitions[number]

    def proposal(
        self, *in_sync: int, leader: int = -1, topic: str = "t", number: int = 0
    ) -> IsrProposal:
        """What the leader of a partition would ask for now."""
        one = self.at(topic, number)
        members = tuple(
            IsrMember(broker_id, self.image.brokers[broker_id].broker_epoch)
            for broker_id in in_sync
        )
        return IsrProposal(
            self.image.topics[topic].topic_id,
            number,
            one.leader_epoch,
            one.partition_epoch,
            members,
            leader,
        )

    def propose(self, *proposals: IsrProposal, by: int) -> list[PartitionRecord | ErrorCode]:
        """Let a broker propose; gives partitions or error codes."""
        results = self.commit(
            alter_partitions(self.image, by, self.epoch(by), proposals, self.defaults)
        )
        assert isinstance(results, list), results
        return [
            one.result.error_code if isinstance(one.result, Refusal) else one.result
            for one in results
        ]

    def alter(self, *in_sync: int, leader: int = -1, topic: str = "t", number: int = 0) -> None:
        """Let the leader of a partition change its ISR or hand over; it must be granted."""
        (result,) = self.propose(
            self.proposal(*in_sync, leader=leader, topic=topic, number=number),
            by=self.at(topic, number).leader,
        )
        assert result == self.at(topic, number)

    def elect(
        self, kind: ElectionKind, *partitions: tuple[str, int]
    ) -> dict[tuple[str, int], ErrorCode]:
        """Elect leaders, of all partitions if none is named."""
        results = self.commit(elect_leaders(self.image, kind, partitions or None, self.defaults))
        found = {(one.topic, one.partition): one for one in results}
        assert len(found) == len(results)
        return {
            key: ErrorCode.NONE if one.refusal is None else one.refusal.error_code
            for key, one in found.items()
        }

    def elect_preferred(self, *partitions: tuple[str, int]) -> None:
        """Ask leaders to hand over to preferred replicas; it must be possible."""
        codes = self.elect(ElectionKind.PREFERRED, *partitions)
        assert codes == dict.fromkeys(partitions, ErrorCode.NONE)

    def reassign(self, *replicas: int, topic: str = "t", number: int = 0) -> ErrorCode:
        """Reassign a partition; no replicas cancel."""
        wish = Reassignment(topic, number, replicas or None)
        ((*key, refusal),) = self.commit(reassign_partitions(self.image, [wish], self.defaults))
        assert key == [topic, number]
        return ErrorCode.NONE if refusal is None else refusal.error_code


def check_partition(image: MetadataImage, rules: ReplicationRules, one: PartitionRecord) -> None:
    """Assert what holds for a partition at any time."""
    replicas, in_sync = set(one.replicas), set(one.in_sync_replicas)
    eligible, removing = set(one.eligible_leader_replicas), set(one.removing_replicas)
    assert len(replicas) == len(one.replicas) > len(removing)
    assert len(in_sync) == len(one.in_sync_replicas) > 0
    assert in_sync <= replicas
    assert eligible <= replicas - in_sync
    assert set(one.adding_replicas) <= replicas - removing
    assert removing <= replicas
    if one.leader == NO_LEADER:
        # Whoever could lead would.
        assert not any(map(image.is_active, in_sync | eligible))
        assert not (rules.is_unclean_election_enabled and any(map(image.is_active, replicas)))
        assert one.next_leader == NO_LEADER
        assert len(one.last_known_eligible_leaders) == 1
    else:
        assert one.leader in in_sync
        assert not any(map(image.is_fenced, in_sync))
        assert one.last_known_eligible_leaders == ()
    if eligible:
        assert len(in_sync) < min(rules.min_insync_replicas, len(replicas))
    if one.next_leader != NO_LEADER:
        assert one.next_leader in in_sync - {one.leader}
        assert image.is_active(one.next_leader)
    if one.adding_replicas or one.removing_replicas:
        is_ready = in_sync.issuperset(one.adding_replicas) and in_sync - removing
        assert not is_ready or one.leader in removing or one.leader == NO_LEADER


def check_change(image: MetadataImage, old: PartitionRecord, new: PartitionRecord) -> None:
    """Assert what holds for every change of a partition."""
    assert new.partition_epoch == old.partition_epoch + 1
    is_shrunk = not set(old.replicas) <= set(new.replicas)
    if new.leader != old.leader or is_shrunk:
        assert new.leader_epoch == old.leader_epoch + 1
    assert new.leader_epoch in (old.leader_epoch, old.leader_epoch + 1)
    if new.leader not in (old.leader, NO_LEADER):
        assert image.is_active(new.leader)
    for broker_id in set(new.in_sync_replicas) - set(old.in_sync_replicas):
        # Only brokers in service join an ISR, or the one that may lead alone.
        assert image.is_active(broker_id) or new.leader == NO_LEADER


def check_snapshot(image: MetadataImage) -> None:
    """Assert that an image's records rebuild it."""
    rebuilt = MetadataImage()
    for record in image.records():
        rebuilt.replay(decode_record(encode_record(record)))
    assert rebuilt.topics == image.topics
    assert rebuilt.topics_by_id == image.topics_by_id
    assert rebuilt.names_by_metric == image.names_by_metric
    assert rebuilt.settings == image.settings
    assert rebuilt.brokers == image.brokers
    assert rebuilt.next_broker_epoch == image.next_broker_epoch
    assert rebuilt.next_producer_id == image.next_producer_id
