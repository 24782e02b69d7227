"""The records of streams groups: Kafka's bytes, and what an older or later broker has written."""

from __future__ import annotations

from minikafka.coordinator.group.decoding import UnknownKind, decode_entry
from minikafka.coordinator.group.records import Entry
from minikafka.coordinator.group.streams.member import (
    Identity,
    MemberState,
    StreamsMember,
    current_value,
    identity_value,
    stored_identity,
    with_current,
)
from minikafka.coordinator.group.streams.records import (
    CurrentEntry,
    CurrentValue,
    GroupEpochEntry,
    GroupValue,
    KeyValue,
    MemberEntry,
    TargetEntry,
    TargetEpochEntry,
    TargetMemberValue,
    TargetValue,
    TopologyEntry,
    to_structs,
)
from minikafka.coordinator.group.streams.tasks import Assignment
from minikafka.coordinator.group.streams.topology import requested
from tests.coordinator.group.streams.streams_shell import TWO_PARTS, tasks

IDENTITY = Identity("i", "r", "app", "/10.0.0.7", 1000, 3, "p", ("host", 80), (("zone", "a"),))
MEMBER = StreamsMember(
    "A",
    IDENTITY,
    5,
    4,
    MemberState.UNREVOKED_TASKS,
    Assignment(tasks(0, 0, 2), tasks(1, 1), tasks(1, 3)),
    Assignment(tasks(0, 5)),
    {**dict.fromkeys(tasks(0, 0, 2), 3), **dict.fromkeys(tasks(0, 5), 4)},
)


def test_every_record_is_read_back() -> None:
    target = TargetMemberValue(
        active_tasks=to_structs(tasks(0, 1)), standby_tasks=[], warmup_tasks=[]
    )
    group = GroupValue(
        epoch=3,
        metadata_hash=-5,
        validated_topology_epoch=2,
        last_assignment_configs=[KeyValue(key="num.standby.replicas", value="1")],
    )
    entries: list[Entry] = [
        GroupEpochEntry("g", group),
        MemberEntry("g", "A", identity_value(IDENTITY)),
        TargetEpochEntry("g", TargetValue(assignment_epoch=3, assignment_timestamp_ms=77)),
        TargetEntry("g", "A", target),
        CurrentEntry("g", "A", current_value(MEMBER)),
        TopologyEntry("g", requested(TWO_PARTS)),
    ]
    for entry in entries:
        key, value = entry.encode()
        assert decode_entry(key, value) == entry
        tombstone = decode_entry(key, None)
        assert not isinstance(tombstone, UnknownKind)
        assert tombstone.encode() == (key, None)


def test_the_keys_and_values_are_kafkas() -> None:
    """Laid out by hand from the schemas of Kafka 4.4."""
    key, value = GroupEpochEntry("g", GroupValue(epoch=3, metadata_hash=5)).encode()
    assert key == b"\x00\x11\x00\x01g"
    assert value == b"\x00\x00" + (3).to_bytes(4, "big") + (5).to_bytes(8, "big") + b"\x00"
    key, value = TargetEpochEntry("g", TargetValue(assignment_epoch=3)).encode()
    assert (key, value) == (b"\x00\x14\x00\x01g", b"\x00\x00\x00\x00\x00\x03\x00")
    targets = TargetMemberValue(
        active_tasks=to_structs(tasks(7, 1)), standby_tasks=[], warmup_tasks=[]
    )
    key, value = TargetEntry("g", "A", targets).encode()
    assert key == b"\x00\x15\x00\x01g\x00\x01A"
    assert value == b"\x00\x00\x02\x027\x02\x00\x00\x00\x01\x00\x01\x01\x00"


def test_a_member_is_what_its_records_say() -> None:
    assert stored_identity(identity_value(IDENTITY)) == IDENTITY
    assert with_current(StreamsMember("A", IDENTITY), current_value(MEMBER)) == MEMBER


def test_tasks_without_epochs_were_got_in_any() -> None:
    """Kafka 4.1 stored no epochs of tasks."""
    value = current_value(MEMBER)
    for one in (*value.active_tasks, *value.active_tasks_pending_revocation):
        one.assignment_epochs = None
    member = with_current(StreamsMember("A", IDENTITY), value)
    assert set(member.since.values()) == {0}
    assert member.assigned == MEMBER.assigned


def test_a_state_of_a_later_version_is_unknown() -> None:
    value = CurrentValue(
        member_epoch=1,
        previous_member_epoch=0,
        state=9,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        active_tasks_pending_revocation=[],
        standby_tasks_pending_revocation=[],
        warmup_tasks_pending_revocation=[],
    )
    assert with_current(StreamsMember("A"), value).state is MemberState.UNKNOWN
