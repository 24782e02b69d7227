"""Plans that go to a group's coordinator: groups, their offsets, commits."""

from __future__ import annotations

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import describe_groups as describe_groups_api
from minikafka.protocol.messages import find_coordinator, offset_commit, offset_delete, offset_fetch
from minikafka_client import errors
from minikafka_client.plans import group_offsets
from minikafka_client.plans.groups import describe_groups
from minikafka_client.types import OffsetAndMetadata, TopicPartition
from tests.client.plans.scripted import Script

T0 = TopicPartition("t", 0)


# --- coordinators --------------------------------------------------------------------------------


def test_an_old_answer_about_a_coordinator_is_understood() -> None:
    script = Script()
    old = find_coordinator.Response(node_id=7, host="old", port=1)
    script.on(find_coordinator.Request, old)
    group = describe_groups_api.DescribedGroup(
        error_code=0,
        group_id="g",
        group_state="Stable",
        protocol_type="consumer",
        protocol_data="range",
        members=[
            describe_groups_api.DescribedGroupMember(
                member_id="m",
                client_id="c",
                client_host="/h",
                member_metadata=b"?",
                member_assignment=b"?",
            )
        ],
    )
    script.on(describe_groups_api.Request, describe_groups_api.Response(groups=[group]))
    found = script.run(describe_groups, ["g"])["g"]
    assert (found.coordinator, script.cluster.brokers[7].host) == (7, "old")
    assert (found.members[0].topics, found.members[0].assignment) == ((), ())


def test_a_group_of_another_kind_is_described_without_assignments() -> None:
    script = Script()
    member = describe_groups_api.DescribedGroupMember(
        member_id="m", client_id="c", client_host="/h", member_metadata=b"x", member_assignment=b""
    )
    connect = describe_groups_api.DescribedGroup(
        error_code=0,
        group_id="g",
        group_state="Stable",
        protocol_type="connect",
        protocol_data="v2",
        members=[member],
    )
    script.on(describe_groups_api.Request, describe_groups_api.Response(groups=[connect]))
    found = script.run(describe_groups, ["g"])["g"]
    assert found.members[0].assignment == ()


def test_a_group_that_may_not_be_described_is_an_error() -> None:
    script = Script()
    refused = describe_groups_api.DescribedGroup(
        error_code=30, group_id="g", group_state="", protocol_type="", protocol_data="", members=[]
    )
    script.on(describe_groups_api.Request, describe_groups_api.Response(groups=[refused]))
    with pytest.raises(errors.BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        script.run(describe_groups, ["g"])


def test_a_coordinator_that_is_not_there_yet_is_looked_for_again() -> None:
    script = Script(retries_max=1)
    missing = find_coordinator.Response(error_code=15, error_message="not yet")
    script.on(find_coordinator.Request, missing)
    with pytest.raises(errors.BrokerError, match="COORDINATOR_NOT_AVAILABLE"):
        script.run(describe_groups, ["g"])
    with pytest.raises(errors.BrokerError, match="coordinator of 'g'"):
        script.run(group_offsets.list_group_offsets, "g")
    script.on(find_coordinator.Request, errors.ConnectionLostError("gone"))
    with pytest.raises(errors.ConnectionLostError):
        script.run(describe_groups, ["g"])


def test_a_coordinator_that_is_down_fails_its_groups() -> None:
    script = Script(retries_max=0).on(
        describe_groups_api.Request, errors.ConnectionLostError("gone")
    )
    with pytest.raises(errors.ConnectionLostError):
        script.run(describe_groups, ["g"])


# --- committed offsets ---------------------------------------------------------------------------


def test_old_and_new_answers_about_offsets_are_understood() -> None:
    script = Script()
    old = offset_fetch.Partition(partition_index=0, committed_offset=5, metadata=None, error_code=0)
    script.on(
        offset_fetch.Request,
        offset_fetch.Response(topics=[offset_fetch.ResponseTopic(name="t", partitions=[old])]),
    )
    expected = {T0: OffsetAndMetadata(5)}
    assert script.run(group_offsets.list_group_offsets, "g", [T0]) == expected
    new = offset_fetch.GroupPartition(
        partition_index=0, committed_offset=5, metadata="", error_code=0
    )
    topic = offset_fetch.ResponseGroupTopic(name="t", partitions=[new])
    group = offset_fetch.ResponseGroup(group_id="g", topics=[topic])
    script.on(offset_fetch.Request, offset_fetch.Response(groups=[group]))
    assert script.run(group_offsets.list_group_offsets, "g") == expected
    versions = [c.version_min for c in script.calls_of(offset_fetch.Request)]
    assert versions == [1, 2]


@pytest.mark.parametrize("partitions", [None, [T0]])
def test_offsets_that_may_not_be_read_are_an_error(partitions: list[TopicPartition] | None) -> None:
    script = Script()
    group = offset_fetch.ResponseGroup(group_id="g", topics=[], error_code=30)
    script.on(offset_fetch.Request, offset_fetch.Response(groups=[group]))
    with pytest.raises(errors.BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        script.run(group_offsets.list_group_offsets, "g", partitions)


@pytest.mark.parametrize("partitions", [None, [T0]])
def test_an_unstable_offset_is_waited_for(partitions: list[TopicPartition] | None) -> None:
    def answered(code: ErrorCode) -> offset_fetch.Response:
        found = offset_fetch.GroupPartition(
            partition_index=0, committed_offset=5, metadata="", error_code=code
        )
        topic = offset_fetch.ResponseGroupTopic(name="t", partitions=[found])
        group = offset_fetch.ResponseGroup(group_id="g", topics=[topic])
        return offset_fetch.Response(groups=[group])

    script = Script().on(
        offset_fetch.Request, answered(ErrorCode.UNSTABLE_OFFSET_COMMIT), answered(ErrorCode.NONE)
    )
    found = script.run(group_offsets.list_group_offsets, "g", partitions, require_stable=True)
    assert found == {T0: OffsetAndMetadata(5)}
    assert script.pauses == [0]


def test_offsets_of_an_unknown_group_cannot_be_deleted() -> None:
    script = Script().on(offset_delete.Request, offset_delete.Response(error_code=69, topics=[]))
    with pytest.raises(errors.BrokerError, match="GROUP_ID_NOT_FOUND"):
        script.run(group_offsets.delete_group_offsets, "g", [T0])


def committed(code: ErrorCode) -> offset_commit.Response:
    partition = offset_commit.ResponsePartition(partition_index=0, error_code=code)
    topic = offset_commit.ResponseTopic(name="t", partitions=[partition])
    return offset_commit.Response(topics=[topic])


def test_a_known_coordinator_is_asked_first_and_looked_up_when_it_has_moved() -> None:
    script = Script().on(
        offset_commit.Request,
        errors.ConnectionLostError("gone"),
        committed(ErrorCode.NOT_COORDINATOR),
        committed(ErrorCode.NONE),
    )
    member = group_offsets.Committer("g", "m", 3, None, coordinator=1)
    script.run(group_offsets.commit_offsets, member, {T0: 5})
    nodes = [call.node for call in script.calls_of(offset_commit.Request)]
    assert nodes == [1, 2, 2]
    assert len(script.asked(find_coordinator.Request)) == 2


@pytest.mark.parametrize(
    "code",
    [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS],
)
def test_a_commit_of_a_member_that_the_group_has_left_behind_fails(code: ErrorCode) -> None:
    script = Script().on(offset_commit.Request, committed(code))
    member = group_offsets.Committer("g", "m", 3)
    with pytest.raises(errors.CommitFailedError, match="member 'm' of generation 3") as caught:
        script.run(group_offsets.commit_offsets, member, {T0: 5})
    assert caught.value.code is code


def test_a_commit_of_a_replaced_static_member_is_fenced() -> None:
    script = Script().on(offset_commit.Request, committed(ErrorCode.FENCED_INSTANCE_ID))
    member = group_offsets.Committer("g", "m", 3, "host")
    with pytest.raises(errors.FencedError, match="group_instance_id 'host'"):
        script.run(group_offsets.commit_offsets, member, {T0: 5})


def test_a_commit_without_a_coordinator_is_an_error() -> None:
    script = Script(retries_max=0).on(
        find_coordinator.Request, find_coordinator.Response(error_code=30)
    )
    with pytest.raises(errors.BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        script.run(group_offsets.commit_offsets, group_offsets.Committer("g"), {T0: 5})
