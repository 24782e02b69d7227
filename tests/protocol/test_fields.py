from __future__ import annotations

import copy
import pickle

import pytest

from minikafka.protocol.fields import (
    EVERY_VERSION,
    NO_VERSION,
    OPEN_END,
    VersionRange,
    shared_default,
)
from minikafka.protocol.messages.fetch import EpochEndOffset, PartitionData
from minikafka.protocol.messages.produce import LeaderIdAndEpoch, PartitionProduceResponse
from minikafka.protocol.schema import Field, Struct
from tests.protocol.instances import every_message


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3+", (3, OPEN_END)), ("2-5", (2, 5)), ("7", (7, 7)), ("none", NO_VERSION)],
)
def test_a_range_is_read_as_kafka_writes_it(text: str, expected: tuple[int, int]) -> None:
    assert VersionRange.parse(text) == expected


def test_a_range_holds_both_of_its_ends() -> None:
    versions = VersionRange.parse("2-4")
    assert [version for version in range(7) if version in versions] == [2, 3, 4]
    assert 0 in EVERY_VERSION
    assert 0 not in NO_VERSION
    assert 1 not in NO_VERSION
    no_version: object = "2"
    assert no_version not in versions


def all_fields(cls: type[Struct]) -> list[tuple[type[Struct], Field]]:
    found = [(cls, field) for field in cls.FIELDS]
    for field in cls.FIELDS:
        struct = field.item.struct if field.item is not None else field.struct
        if struct is not None:
            found += all_fields(struct)
    return found


EVERY_FIELD = [entry for message in every_message() for entry in all_fields(message)]


def test_a_field_that_some_version_lacks_has_a_default() -> None:
    """Else a message of that version could not be built without naming it."""
    for message in every_message():
        for cls, field in all_fields(message):
            covers_all = field.versions.first <= message.VERSIONS.first and (
                field.versions.last >= message.VERSIONS.last
            )
            assert covers_all or not field.is_required, f"{cls.__name__}.{field.name}"


def test_tags_are_unique_and_only_in_flexible_versions() -> None:
    for message in every_message():
        for cls, field in all_fields(message):
            if field.tag is not None:
                assert field.tagged.first >= message.FLEXIBLE.first, f"{cls.__name__}.{field.name}"
                assert field.kind != "records"  # a payload becomes a part of its own
                same = [other for other in cls.FIELDS if other.tag == field.tag]
                assert same == [field]


def test_a_shared_default_holds_nothing_that_could_be_changed_inside() -> None:
    optional = [field for _, field in EVERY_FIELD if not field.is_required]
    shared = [field for field in optional if isinstance(field.default, Struct)]
    assert shared
    for field in shared:
        for inner in type(field.default).FIELDS:
            assert inner.kind not in {"array", "struct"}


def test_unused_tagged_structs_are_one_shared_object() -> None:
    first = PartitionProduceResponse(index=0, error_code=0, base_offset=0)
    second = PartitionProduceResponse(index=1, error_code=0, base_offset=0)
    assert first.current_leader is second.current_leader
    assert first.current_leader == LeaderIdAndEpoch()
    assert LeaderIdAndEpoch() == first.current_leader
    assert isinstance(first.current_leader, LeaderIdAndEpoch)
    assert repr(first.current_leader) == "LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)"


def test_the_shared_object_refuses_changes() -> None:
    partition = PartitionProduceResponse(index=0, error_code=0, base_offset=0)
    with pytest.raises(AttributeError, match="assign a new LeaderIdAndEpoch instead of setting"):
        partition.current_leader.leader_id = 3
    partition.current_leader = LeaderIdAndEpoch(leader_id=3)
    partition.current_leader.leader_epoch = 4
    assert shared_default(LeaderIdAndEpoch) == LeaderIdAndEpoch()


def test_messages_with_shared_defaults_can_be_copied() -> None:
    partition = PartitionData(
        partition_index=1, error_code=0, high_watermark=2, aborted_transactions=[], records=b"r"
    )
    assert partition.diverging_epoch is shared_default(EpochEndOffset)
    for twin in (
        copy.copy(partition),
        copy.deepcopy(partition),
        pickle.loads(pickle.dumps(partition)),
    ):
        assert twin == partition
        assert twin is not partition
        assert twin.diverging_epoch is partition.diverging_epoch
