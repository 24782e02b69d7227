"""What a group itself checks."""

import pytest

from minikafka.coordinator.group.classic.classic_group import ClassicGroup
from minikafka.coordinator.group.classic.records import GroupMetadataMember, GroupMetadataValue
from minikafka.coordinator.group.classic.states import TRANSITIONS, GroupState


@pytest.mark.parametrize("before", GroupState)
@pytest.mark.parametrize("after", GroupState)
def test_only_the_transitions_in_the_table_are_made(before: GroupState, after: GroupState) -> None:
    group = ClassicGroup("readers")
    group.state = before
    if after in TRANSITIONS[before]:
        group.move_to(after)
        assert group.is_in(after)
    else:
        message = f"'readers' cannot go from {before.value} to {after.value}"
        with pytest.raises(ValueError, match=message):
            group.move_to(after)
        assert group.is_in(before)


def test_a_dead_group_stays_dead_and_every_other_state_can_be_left() -> None:
    assert not TRANSITIONS[GroupState.DEAD]
    assert all(TRANSITIONS[state] for state in GroupState if state is not GroupState.DEAD)


def test_a_stored_assignment_of_a_member_that_has_left_is_ignored() -> None:
    group = ClassicGroup("readers")
    gone = GroupMetadataMember(
        member_id="gone",
        client_id="app",
        client_host="/",
        session_timeout_ms=1,
        subscription=b"",
        assignment=b"x",
    )
    group.apply(
        GroupMetadataValue(
            protocol_type="consumer", generation=7, protocol="range", leader="gone", members=[gone]
        )
    )
    assert group.generation == 7
    assert group.members == {}
