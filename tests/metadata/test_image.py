"""The metadata image: replaying records, snapshots, and records that do not fit."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from minikafka.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    InconsistentMetadataError,
    MetadataImage,
    TopicImage,
    metric_name,
)
from minikafka.metadata.producer_ids import allocate_producer_ids
from minikafka.metadata.records import (
    BrokerChangeRecord,
    BrokerRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    SettingRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

A = b"a" * 16
B = b"b" * 16


def image_of(*records: MetadataRecord) -> MetadataImage:
    image = MetadataImage()
    for record in records:
        image.replay(record)
    return image


def partition(topic_id: bytes, number: int, leader_epoch: int = 0) -> PartitionRecord:
    return PartitionRecord(topic_id, number, (1,), (1,), 1, leader_epoch, 0)


def test_a_topic_is_found_by_name_and_by_id() -> None:
    image = image_of(TopicRecord("t", A), partition(A, 0), partition(A, 1))
    topic = TopicImage("t", A, [partition(A, 0), partition(A, 1)])
    assert image.topics == {"t": topic}
    assert image.topics_by_id == {A: topic}
    assert image.version == 3


def test_a_later_record_replaces_a_partition_and_leaves_the_old_object_alone() -> None:
    image = image_of(TopicRecord("t", A), partition(A, 0))
    before = image.topics["t"].partitions[0]
    image.replay(partition(A, 0, leader_epoch=5))
    assert before.leader_epoch == 0
    assert [one.leader_epoch for one in image.topics["t"].partitions] == [5]


def test_removing_a_topic_takes_its_settings_and_frees_its_name() -> None:
    image = image_of(
        TopicRecord("a.b", A),
        SettingRecord(RESOURCE_TOPIC, "a.b", "retention.ms", "1"),
        RemoveTopicRecord(A),
    )
    assert (image.topics, image.topics_by_id, image.settings) == ({}, {}, {})
    assert image.names_by_metric == {}
    image.replay(TopicRecord("a_b", A))
    assert image.topic_settings("a_b") == {}


def test_topics_that_share_a_metric_name_do_not_forget_each_other() -> None:
    # The controller makes none, but the log of a Kafka tool or of an older version may.
    image = image_of(TopicRecord("a.b", A), TopicRecord("a_b", B), RemoveTopicRecord(A))
    assert image.names_by_metric == {"a_b": "a_b"}


def test_settings_are_replaced_and_taken_back() -> None:
    image = image_of(
        SettingRecord(RESOURCE_BROKER, "", "log.retention.ms", "1"),
        SettingRecord(RESOURCE_BROKER, "", "log.retention.ms", "2"),
        SettingRecord(RESOURCE_BROKER, "", "log.segment.bytes", "3"),
    )
    held = image.settings[RESOURCE_BROKER, ""]
    image.replay(SettingRecord(RESOURCE_BROKER, "", "log.retention.ms", None))
    assert image.settings[RESOURCE_BROKER, ""] == {"log.segment.bytes": "3"}
    assert held == {"log.retention.ms": "2", "log.segment.bytes": "3"}
    image.replay(SettingRecord(RESOURCE_BROKER, "", "log.segment.bytes", None))
    image.replay(SettingRecord(RESOURCE_BROKER, "", "never.set", None))
    assert image.settings == {}


def test_producer_ids_never_go_back() -> None:
    image = image_of(ProducerIdsRecord(1, 3000), ProducerIdsRecord(2, 1000))
    assert image.next_producer_id == 3000


def broker(broker_id: int, broker_epoch: int, incarnation: bytes = A) -> BrokerRecord:
    return BrokerRecord(broker_id, incarnation, broker_epoch, "h", 9092, "h", 9093)


def test_a_broker_is_registered_unfenced_stopping_and_removed() -> None:
    image = image_of(broker(1, 0))
    assert image.brokers == {1: BrokerRecord(1, A, 0, "h", 9092, "h", 9093, None, is_fenced=True)}
    seen: list[tuple[bool, bool]] = []
    for is_fenced, is_shutting_down in [(True, False), (False, False), (False, True)]:
        image.replay(BrokerChangeRecord(1, 0, is_fenced, is_shutting_down))
        seen.append((image.is_fenced(1), image.is_active(1)))
    assert seen == [(True, False), (False, True), (False, False)]
    image.replay(UnregisterBrokerRecord(1, 0))
    assert (image.brokers, image.is_fenced(1), image.is_active(1)) == ({}, True, False)


def test_broker_epochs_are_not_reused_after_their_broker_was_removed() -> None:
    image = image_of(broker(1, 7), UnregisterBrokerRecord(1, 7))
    assert image_of(*image.records()).next_broker_epoch == 8


def test_the_partitions_of_a_broker_are_found_in_every_topic() -> None:
    image = image_of(TopicRecord("t", A), TopicRecord("u", B))
    for topic_id, number, nodes in [(A, 0, (1, 2)), (A, 1, (2, 3)), (B, 0, (3, 1))]:
        image.replay(PartitionRecord(topic_id, number, nodes, nodes, nodes[0], 0, 0))
    found = [(topic.name, one.partition) for topic, one in image.partitions_of_broker(1)]
    assert found == [("t", 0), ("u", 0)]
    assert list(image.partitions_of_broker(4)) == []


def test_a_partition_is_found_by_topic_id_and_number() -> None:
    image = image_of(TopicRecord("t", A), partition(A, 0))
    assert image.partition(A, 0) == partition(A, 0)
    assert (image.partition(A, 1), image.partition(A, -1), image.partition(B, 0)) == (None,) * 3


@pytest.mark.parametrize(
    "record",
    [
        TopicRecord("t", B),
        TopicRecord("other", A),
        partition(B, 0),
        partition(A, 2),
        partition(A, -1),
        RemoveTopicRecord(B),
        BrokerChangeRecord(1, 5, False, False),
        BrokerChangeRecord(2, 4, False, False),
        UnregisterBrokerRecord(1, 5),
        UnregisterBrokerRecord(2, 4),
    ],
)
def test_a_record_that_does_not_fit_changes_nothing(record: MetadataRecord) -> None:
    image = image_of(TopicRecord("t", A), partition(A, 0), broker(1, 4))
    before = list(image.records())
    with pytest.raises(InconsistentMetadataError):
        image.replay(record)
    assert list(image.records()) == before
    assert image.version == 3


class ImageAgainstModel(RuleBasedStateMachine):
    """Random histories: indexes agree, and a snapshot rebuilds the same image."""

    def __init__(self) -> None:
        super().__init__()
        self.image = MetadataImage()
        self.made = 0

    @rule(name=st.sampled_from(["a", "a.b", "a_b", "c"]), partitions=st.integers(0, 3))
    def create(self, name: str, partitions: int) -> None:
        if name in self.image.topics:
            return
        self.made += 1
        topic_id = self.made.to_bytes(16, "big")
        self.image.replay(TopicRecord(name, topic_id))
        for number in range(partitions):
            self.image.replay(partition(topic_id, number))

    @precondition(lambda self: self.image.topics)
    @rule(choice=st.data())
    def remove(self, choice: st.DataObject) -> None:
        name = choice.draw(st.sampled_from(sorted(self.image.topics)))
        self.image.replay(RemoveTopicRecord(self.image.topics[name].topic_id))

    @rule(
        resource=st.sampled_from([(RESOURCE_TOPIC, "a"), (RESOURCE_BROKER, ""), (4, "1")]),
        name=st.sampled_from(["x", "y"]),
        value=st.none() | st.sampled_from(["1", "2"]),
    )
    def set(self, resource: tuple[int, str], name: str, value: str | None) -> None:
        self.image.replay(SettingRecord(*resource, name, value))

    @rule(broker_id=st.integers(1, 3))
    def register(self, broker_id: int) -> None:
        epoch = self.image.next_broker_epoch
        self.image.replay(broker(broker_id, epoch))
        assert self.image.next_broker_epoch == epoch + 1

    @precondition(lambda self: self.image.brokers)
    @rule(choice=st.data(), is_fenced=st.booleans(), is_shutting_down=st.booleans())
    def change_broker(self, choice: st.DataObject, is_fenced: bool, is_shutting_down: bool) -> None:
        one = choice.draw(st.sampled_from(sorted(self.image.brokers.values())))
        self.image.replay(
            BrokerChangeRecord(one.broker_id, one.broker_epoch, is_fenced, is_shutting_down)
        )

    @precondition(lambda self: self.image.brokers)
    @rule(choice=st.data())
    def unregister(self, choice: st.DataObject) -> None:
        one = choice.draw(st.sampled_from(sorted(self.image.brokers.values())))
        self.image.replay(UnregisterBrokerRecord(one.broker_id, one.broker_epoch))

    @rule()
    def allocate(self) -> None:
        decision = allocate_producer_ids(self.image, 1)
        assert decision.result.start == self.image.next_producer_id
        for record in decision.records:
            self.image.replay(record)
        assert self.image.next_producer_id == decision.result.stop

    @invariant()
    def indexes_agree(self) -> None:
        image = self.image
        assert {t.topic_id: t for t in image.topics.values()} == image.topics_by_id
        for metric, name in image.names_by_metric.items():
            assert name in image.topics
            assert metric_name(name) == metric
        assert all(image.settings.values())

    @invariant()
    def a_snapshot_rebuilds_the_image(self) -> None:
        rebuilt = image_of(*self.image.records())
        assert rebuilt.topics == self.image.topics
        assert rebuilt.settings == self.image.settings
        assert rebuilt.next_producer_id == self.image.next_producer_id
        assert rebuilt.brokers == self.image.brokers
        assert rebuilt.next_broker_epoch == self.image.next_broker_epoch


TestImageAgainstModel = ImageAgainstModel.TestCase
