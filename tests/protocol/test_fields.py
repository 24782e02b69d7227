from __future__ import annotations

import copy
import pickle

import pytest

from minikafka.protocol import fields
from minikafka.protocol.messages import fetch, produce
from tests.protocol.instances import every_message


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3+", (3, fields.OPEN_END)), ("2-5", (2, 5)), ("7", (7, 7)), ("none", fields.NO_VERSION)],
)
def test_a_range_is_parsed_as_kafka_writes_it(text: str, expected: tuple[int, int]) -> None:
    assert fields.VersionRange.parse(text) == expected


def test_a_range_includes_both_ends() -> None:
    versions = fields.VersionRange.parse("2-4")
    assert [version for version in range(7) if version in versions] == [2, 3, 4]
    assert 0 in fields.EVERY_VERSION
    assert 0 not in fields.NO_VERSION
    assert 1 not in fields.NO_VERSION
    no_version: object = "2"
    assert no_version not in versions


def all_fields(cls: type[fields.Struct]) -> list[tuple[type[fields.Struct], fields.Field]]:
    found = [(cls, field) for field in cls.FIELDS]
    for field in cls.FIELDS:
        struct = field.item.struct if field.item is not None else field.struct
        if struct is not None:
            found += all_fields(struct)
    return found


EVERY_FIELD = [entry for message in every_message() for entry in all_fields(message)]


def test_a_field_that_is_missing_in_some_versions_has_a_default() -> None:
    """Otherwise a message of those versions could not be built without it."""
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
                assert field.kind != "records"  # a payload becomes a separate buffer
                same = [other for other in cls.FIELDS if other.tag == field.tag]
                assert same == [field]


def test_a_shared_default_holds_nothing_mutable() -> None:
    optional = [field for _, field in EVERY_FIELD if not field.is_required]
    shared = [field for field in optional if isinstance(field.default, fields.Struct)]
    assert shared
    for field in shared:
        for inner in type(field.default).FIELDS:
            assert inner.kind not in {"array", "struct"}


def test_unused_tagged_structs_are_one_shared_object() -> None:
    first = produce.PartitionResponse(index=0, error_code=0, base_offset=0)
    second = produce.PartitionResponse(index=1, error_code=0, base_offset=0)
    assert first.current_leader is second.current_leader
    assert first.current_leader == produce.LeaderIdAndEpoch()
    assert produce.LeaderIdAndEpoch() == first.current_leader
    assert isinstance(first.current_leader, produce.LeaderIdAndEpoch)
    assert repr(first.current_leader) == "LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)"


def test_the_shared_object_is_frozen() -> None:
    partition = produce.PartitionResponse(index=0, error_code=0, base_offset=0)
    with pytest.raises(AttributeError, match="assign a new LeaderIdAndEpoch instead of setting"):
        partition.current_leader.leader_id = 3
    partition.current_leader = produce.LeaderIdAndEpoch(leader_id=3)
    partition.current_leader.leader_epoch = 4
    assert fields.shared_default(produce.LeaderIdAndEpoch) == produce.LeaderIdAndEpoch()


def test_messages_with_shared_defaults_can_be_copied() -> None:
    partition = fetch.PartitionData(
        partition_index=1, error_code=0, high_watermark=2, aborted_transactions=[], records=b"r"
    )
    assert partition.diverging_epoch is fields.shared_default(fetch.EpochEndOffset)
    for twin in (
        copy.copy(partition),
        copy.deepcopy(partition),
        pickle.loads(pickle.dumps(partition)),
    ):
        assert twin == partition
        assert twin is not partition
        assert twin.diverging_epoch is partition.diverging_epoch
