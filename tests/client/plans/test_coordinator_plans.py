"""Plans that go to a group's coordinator: groups, their offsets, commits."""

from __future__ import annotations

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from minikafka.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from minikafka.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from minikafka_client.errors import (
    BrokerError,
    CommitFailedError,
    ConnectionLostError,
    FencedError,
)
from minikafka_client.plans.commit import Committer, commit_offsets
from minikafka_client.plans.group_offsets import delete_group_offsets, list_group_offsets
from minikafka_client.plans.groups import describe_groups
from minikafka_client.types import (
    OffsetAndMetadata,
    TopicPartition,
)
from tests.client.plans.scripted import Script

T0 = TopicPartition("t", 0)


# --- coordinators --------------------------------------------------------------------------------


def test_an_old_answer_about_a_coordinator_is_understood() -> None:
    script = Script()
    old = FindCoordinatorResponse(node_id=7, host="old", port=1)
    script.on(FindCoordinatorRequest, old)
    group = DescribedGroup(
        error_code=0,
        group_id="g",
        group_state="Stable",
        protocol_type="consumer",
        protocol_data="range",
        members=[
            DescribedGroupMember(
                member_id="m",
                client_id="c",
                client_host="/h",
                member_metadata=b"?",
                member_assignment=b"?",
            )
        ],
    )
    script.on(DescribeGroupsRequest, DescribeGroupsResponse(groups=[group]))
    found = script.run(lambda cluster: describe_groups(cluster, ["g"]))["g"]
    assert (found.coordinator, script.cluster.brokers[7].host) == (7, "old")
    assert (found.members[0].topics, found.members[0].assignment) == ((), ())


def test_a_group_of_another_kind_is_described_without_assignments() -> None:
    script = Script()
    member = DescribedGroupMember(
        member_id="m", client_id="c", client_host="/h", member_metadata=b"x", member_assignment=b""
    )
    connect = DescribedGroup(
        error_code=0,
        group_id="g",
        group_state="Stable",
        protocol_type="connect",
        protocol_data="v2",
        members=[member],
    )
    script.on(DescribeGroupsRequest, DescribeGroupsResponse(groups=[connect]))
    found = script.run(lambda cluster: describe_groups(cluster, ["g"]))["g"]
    assert found.members[0].assignment == ()


def test_a_group_that_may_not_be_described_is_an_error() -> None:
    script = Script()
    refused = DescribedGroup(
        error_code=30,
        group_id="g",
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )
    script.on(DescribeGroupsRequest, DescribeGroupsResponse(groups=[refused]))
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        script.run(lambda cluster: describe_groups(cluster, ["g"]))


def test_a_coordinator_that_is_not_there_yet_is_looked_for_again() -> None:
    script = Script(retries_max=1)
    missing = FindCoordinatorResponse(error_code=15, error_message="not yet")
    script.on(FindCoordinatorRequest, missing)
    with pytest.raises(BrokerError, match="COORDINATOR_NOT_AVAILABLE"):
        script.run(lambda cluster: describe_groups(cluster, ["g"]))
    with pytest.raises(BrokerError, match="coordinator of 'g'"):
        script.run(lambda cluster: list_group_offsets(cluster, "g"))
    script.on(FindCoordinatorRequest, ConnectionLostError("gone"))
    with pytest.raises(ConnectionLostError):
        script.run(lambda cluster: describe_groups(cluster, ["g"]))


def test_a_coordinator_that_is_gone_fails_its_groups() -> None:
    script = Script(retries_max=0)
    script.on(DescribeGroupsRequest, ConnectionLostError("gone"))
    with pytest.raises(ConnectionLostError):
        script.run(lambda cluster: describe_groups(cluster, ["g"]))


# --- committed offsets ---------------------------------------------------------------------------


def test_old_and_new_answers_about_offsets_are_understood() -> None:
    script = Script()
    old = OffsetFetchResponsePartition(
        partition_index=0, committed_offset=5, metadata=None, error_code=0
    )
    script.on(
        OffsetFetchRequest,
        OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=[old])]),
    )
    expected = {T0: OffsetAndMetadata(5)}
    assert script.run(lambda cluster: list_group_offsets(cluster, "g", [T0])) == expected
    new = OffsetFetchResponsePartitions(
        partition_index=0, committed_offset=5, metadata="", error_code=0
    )
    topic = OffsetFetchResponseTopics(name="t", partitions=[new])
    group = OffsetFetchResponseGroup(group_id="g", topics=[topic])
    script.on(OffsetFetchRequest, OffsetFetchResponse(groups=[group]))
    assert script.run(lambda cluster: list_group_offsets(cluster, "g")) == expected
    versions = [c.version_min for c in script.calls if isinstance(c.request, OffsetFetchRequest)]
    assert versions == [1, 2]


@pytest.mark.parametrize("partitions", [None, [T0]])
def test_offsets_that_may_not_be_read_are_an_error(partitions: list[TopicPartition] | None) -> None:
    script = Script()
    group = OffsetFetchResponseGroup(group_id="g", topics=[], error_code=30)
    script.on(OffsetFetchRequest, OffsetFetchResponse(groups=[group]))
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        script.run(lambda cluster: list_group_offsets(cluster, "g", partitions))


@pytest.mark.parametrize("partitions", [None, [T0]])
def test_an_unstable_offset_is_waited_for(partitions: list[TopicPartition] | None) -> None:
    def answered(code: ErrorCode) -> OffsetFetchResponse:
        found = OffsetFetchResponsePartitions(
            partition_index=0, committed_offset=5, metadata="", error_code=code
        )
        topic = OffsetFetchResponseTopics(name="t", partitions=[found])
        group = OffsetFetchResponseGroup(group_id="g", topics=[topic])
        return OffsetFetchResponse(groups=[group])

    script = Script()
    script.on(
        OffsetFetchRequest, answered(ErrorCode.UNSTABLE_OFFSET_COMMIT), answered(ErrorCode.NONE)
    )
    found = script.run(
        lambda cluster: list_group_offsets(cluster, "g", partitions, require_stable=True)
    )
    assert found == {T0: OffsetAndMetadata(5)}
    assert script.pauses == [0]


def test_offsets_of_an_unknown_group_cannot_be_deleted() -> None:
    script = Script()
    script.on(OffsetDeleteRequest, OffsetDeleteResponse(error_code=69, topics=[]))
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        script.run(lambda cluster: delete_group_offsets(cluster, "g", [T0]))


def committed(code: ErrorCode) -> OffsetCommitResponse:
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    topic = OffsetCommitResponseTopic(name="t", partitions=[partition])
    return OffsetCommitResponse(topics=[topic])


def test_a_known_coordinator_is_asked_first_and_looked_up_when_it_has_moved() -> None:
    script = Script()
    script.on(
        OffsetCommitRequest,
        ConnectionLostError("gone"),
        committed(ErrorCode.NOT_COORDINATOR),
        committed(ErrorCode.NONE),
    )
    member = Committer("g", "m", 3, None, coordinator=1)
    script.run(lambda cluster: commit_offsets(cluster, member, {T0: 5}))
    nodes = [call.node for call in script.calls if isinstance(call.request, OffsetCommitRequest)]
    assert nodes == [1, 2, 2]
    assert len(script.asked(FindCoordinatorRequest)) == 2


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
    ],
)
def test_a_commit_of_a_member_that_the_group_has_left_behind_fails(code: ErrorCode) -> None:
    script = Script()
    script.on(OffsetCommitRequest, committed(code))
    member = Committer("g", "m", 3)
    with pytest.raises(CommitFailedError, match="member 'm' of generation 3") as caught:
        script.run(lambda cluster: commit_offsets(cluster, member, {T0: 5}))
    assert caught.value.code is code


def test_a_commit_of_a_replaced_static_member_is_fenced() -> None:
    script = Script()
    script.on(OffsetCommitRequest, committed(ErrorCode.FENCED_INSTANCE_ID))
    member = Committer("g", "m", 3, "host")
    with pytest.raises(FencedError, match="group_instance_id 'host'"):
        script.run(lambda cluster: commit_offsets(cluster, member, {T0: 5}))


def test_a_commit_without_a_coordinator_is_an_error() -> None:
    script = Script(retries_max=0)
    script.on(FindCoordinatorRequest, FindCoordinatorResponse(error_code=30))
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        script.run(lambda cluster: commit_offsets(cluster, Committer("g"), {T0: 5}))
