"""DescribeGroups and ListGroups."""

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import describe_groups
from tests.coordinator.group.harness import GROUP, RANGE, Shell


@pytest.fixture
def shell() -> Shell:
    return Shell()


def test_a_stable_group_shows_protocol_members_and_assignments(shell: Shell) -> None:
    _, ids = shell.stable_group(2)
    described = shell.shard.describe(GROUP, 6)
    assert described.error_code == ErrorCode.NONE
    assert (described.group_state, described.protocol_type) == ("Stable", "consumer")
    assert described.protocol_data == "range"
    assert {m.member_id: m.member_assignment for m in described.members} == {
        member_id: member_id.encode() for member_id in ids
    }
    assert {m.member_metadata for m in described.members} == {RANGE[0][1]}
    assert {(m.client_id, m.client_host) for m in described.members} == {("app", "/10.0.0.7")}


def test_a_group_in_a_rebalance_lists_its_members(shell: Shell) -> None:
    shell.stable_group(1)
    shell.join(instance="alpha")
    described = shell.shard.describe(GROUP, 6)
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [m.group_instance_id for m in described.members] == [None, "alpha"]
    assert {(m.member_metadata, m.member_assignment) for m in described.members} == {(b"", b"")}


def test_an_empty_group_shows_its_state(shell: Shell) -> None:
    shell.commit(1)
    described = shell.shard.describe(GROUP, 6)
    assert (described.group_state, described.protocol_type) == ("Empty", "")


def test_an_unknown_group_is_dead_and_from_v6_on_an_error(shell: Shell) -> None:
    described = shell.shard.describe("nobody", 5)
    assert (described.error_code, described.group_state) == (ErrorCode.NONE, "Dead")
    described = shell.shard.describe("nobody", 6)
    assert described.group_state == "Dead"
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert described.error_message == "Group nobody not found."


@pytest.mark.parametrize("version", range(7))
def test_every_version_can_be_written(shell: Shell, version: int) -> None:
    shell.stable_group(1)
    groups = [shell.shard.describe(name, version) for name in (GROUP, "nobody")]
    response = describe_groups.Response(groups=groups)
    decoded = describe_groups.Response.decode(version, response.encode_to_bytes(version))
    assert [g.group_state for g in decoded.groups] == ["Stable", "Dead"]


@pytest.mark.parametrize(
    ("states", "types", "listed"),
    [
        ([], [], {"empty", "stable"}),
        (["stable"], [], {"stable"}),
        (["Empty", "Dead"], ["Classic"], {"empty"}),
        (["PreparingRebalance"], [], set()),
        ([], ["consumer"], set()),
        ([], ["consumer", "classic"], {"empty", "stable"}),
    ],
)
def test_groups_are_listed_by_state_and_type(
    shell: Shell, states: list[str], types: list[str], listed: set[str]
) -> None:
    shell.stable_group(1, group="stable")
    shell.commit(1, group="empty")
    groups = shell.shard.list_groups(states, types)
    assert {group.group_id for group in groups} == listed
    assert {group.group_type for group in groups} <= {"classic"}
    expected = {"stable": ("consumer", "Stable"), "empty": ("", "Empty")}
    for group in groups:
        assert (group.protocol_type, group.group_state) == expected[group.group_id]
