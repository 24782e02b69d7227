"""What plans ask for, and what they make of answers that no live broker gives on demand."""

from __future__ import annotations

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from minikafka.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from minikafka.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from minikafka.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka_client.errors import (
    BrokerError,
    ConnectionLostError,
    KafkaError,
    SomeFailedError,
    UnknownTopicError,
    UnreadableResponseError,
)
from minikafka_client.plans.ask import CONTROLLER, Call
from minikafka_client.plans.brokers import describe_log_dirs
from minikafka_client.plans.configs import alter_configs, describe_configs
from minikafka_client.plans.groups import list_groups
from minikafka_client.plans.offsets import list_offsets
from minikafka_client.plans.topics import create_topics, describe_topics
from minikafka_client.types import (
    LATEST,
    MAX_TIMESTAMP,
    ConfigChange,
    ConfigResource,
    IsolationLevel,
    NewTopic,
    TopicPartition,
)
from tests.client.plans.scripted import Script

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


# --- the controller ------------------------------------------------------------------------------


def created(code: ErrorCode) -> CreateTopicsResponse:
    result = CreatableTopicResult(name="t", error_code=code, error_message=None)
    return CreateTopicsResponse(topics=[result])


def test_a_controller_that_moved_is_looked_up_and_asked_again() -> None:
    script = Script()
    script.on(CreateTopicsRequest, created(ErrorCode.NOT_CONTROLLER), created(ErrorCode.NONE))
    assert list(script.run(lambda cluster: create_topics(cluster, [NewTopic("t")]))) == ["t"]
    assert [call.node for call in script.calls if call.node == CONTROLLER] == [CONTROLLER] * 2
    assert len(script.asked(MetadataRequest)) == 2
    assert script.pauses == [0]


def test_what_does_not_pass_is_raised_when_the_time_is_over() -> None:
    script = Script(retries_max=2)
    script.on(CreateTopicsRequest, ConnectionLostError("gone"))
    with pytest.raises(ConnectionLostError, match="gone"):
        script.run(lambda cluster: create_topics(cluster, [NewTopic("t")]))
    assert script.pauses == [0, 1, 2]


def test_an_answer_that_leaves_something_out_is_noticed() -> None:
    script = Script(retries_max=0)
    script.on(CreateTopicsRequest, CreateTopicsResponse(topics=[]))
    with pytest.raises(UnreadableResponseError, match="leaves out"):
        script.run(lambda cluster: create_topics(cluster, [NewTopic("t")]))


def test_a_mistyped_topic_is_told_at_once() -> None:
    script = Script(t=[1])
    with pytest.raises(UnknownTopicError):
        script.run(lambda cluster: describe_topics(cluster, ["typo"]))
    assert script.pauses == []


def test_of_several_failures_each_is_told() -> None:
    script = Script(t=[1])
    with pytest.raises(SomeFailedError, match="1 of 2 failed: topic 'typo'") as caught:
        script.run(lambda cluster: describe_topics(cluster, ["t", "typo"]))
    assert list(caught.value.succeeded) == ["t"]
    assert list(caught.value.failed) == ["typo"]
    many = {name: BrokerError(3, name) for name in "abcdefg"}
    assert "and 2 more" in str(SomeFailedError(many, {}))


# --- leaders -------------------------------------------------------------------------------------


def offsets_of(call: Call, *failing: tuple[TopicPartition, ErrorCode]) -> ListOffsetsResponse:
    assert isinstance(call.request, ListOffsetsRequest)
    codes = dict(failing)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=p.partition_index,
                        error_code=codes.get(TopicPartition(topic.name, p.partition_index), 0),
                        offset=10 * call.node + p.partition_index,
                    )
                    for p in topic.partitions
                ],
            )
            for topic in call.request.topics
        ]
    )


def test_leaders_are_asked_at_once_each_for_its_own() -> None:
    script = Script(t=[1, 2], u=[1])
    script.on(ListOffsetsRequest, offsets_of)
    found = script.run(lambda cluster: list_offsets(cluster, dict.fromkeys([T0, T1, U0], LATEST)))
    assert {where: each.offset for where, each in found.items()} == {T0: 10, T1: 21, U0: 10}
    assert [call.node for call in script.calls[1:]] == [1, 2]


def test_only_what_failed_is_asked_for_again_and_of_the_new_leader() -> None:
    script = Script(t=[1, 1])

    def move(call: Call) -> ListOffsetsResponse:
        script.leaders["t"] = [1, 2]
        return offsets_of(call, (T1, ErrorCode.NOT_LEADER_OR_FOLLOWER))

    script.on(ListOffsetsRequest, move, offsets_of)
    found = script.run(lambda cluster: list_offsets(cluster, {T0: LATEST, T1: LATEST}))
    assert {where: each.offset for where, each in found.items()} == {T0: 10, T1: 21}
    assert len(script.asked(ListOffsetsRequest)[1].topics[0].partitions) == 1


def test_a_leader_that_cannot_be_reached_fails_its_own_partitions() -> None:
    script = Script(retries_max=0, t=[1, 2])

    def one_is_gone(call: Call) -> ListOffsetsResponse | KafkaError:
        return ConnectionLostError("gone") if call.node == 2 else offsets_of(call)

    script.on(ListOffsetsRequest, one_is_gone)
    with pytest.raises(SomeFailedError) as caught:
        script.run(lambda cluster: list_offsets(cluster, {T0: LATEST, T1: LATEST}))
    assert list(caught.value.succeeded) == [T0]


def test_a_partition_without_leader_is_waited_for() -> None:
    script = Script(retries_max=1, t=[-1])
    with pytest.raises(BrokerError, match="LEADER_NOT_AVAILABLE"):
        script.run(lambda cluster: list_offsets(cluster, {T0: LATEST}))
    with pytest.raises(UnknownTopicError, match="partition 7 of topic 't'"):
        script.run(lambda cluster: list_offsets(cluster, {TopicPartition("t", 7): LATEST}))


def test_what_is_asked_for_decides_the_least_version() -> None:
    script = Script(t=[1])
    script.on(ListOffsetsRequest, offsets_of)
    script.run(lambda cluster: list_offsets(cluster, {T0: LATEST}))
    script.run(lambda cluster: list_offsets(cluster, {T0: MAX_TIMESTAMP}))
    level = IsolationLevel.READ_COMMITTED
    script.run(lambda cluster: list_offsets(cluster, {T0: LATEST}, isolation_level=level))
    versions = [c.version_min for c in script.calls if isinstance(c.request, ListOffsetsRequest)]
    assert versions == [1, 7, 2]


# --- brokers and configurations ------------------------------------------------------------------


def test_every_broker_is_asked_for_its_groups_and_directories() -> None:
    script = Script()
    script.on(ListGroupsRequest, ListGroupsResponse(error_code=0, groups=[]))
    assert script.run(lambda cluster: list_groups(cluster)) == []
    script.run(lambda cluster: list_groups(cluster, states=["Empty"]))
    script.run(lambda cluster: list_groups(cluster, types=["classic"]))
    asked = [call for call in script.calls if isinstance(call.request, ListGroupsRequest)]
    assert [(call.node, call.version_min) for call in asked] == [
        (1, 0),
        (2, 0),
        (1, 4),
        (2, 4),
        (1, 5),
        (2, 5),
    ]
    refused = DescribeLogDirsResponse(error_code=31, results=[])
    script.on(DescribeLogDirsRequest, refused)
    with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED"):
        script.run(lambda cluster: describe_log_dirs(cluster, [2]))


def test_a_broker_that_is_gone_does_not_describe_its_configs() -> None:
    script = Script(retries_max=0)
    script.on(DescribeConfigsRequest, ConnectionLostError("gone"))
    with pytest.raises(ConnectionLostError):
        script.run(lambda cluster: describe_configs(cluster, [ConfigResource.broker(2)]))
    assert script.calls[-1].node == 2


def test_resources_are_asked_where_they_belong() -> None:
    script = Script()

    def describe(call: Call) -> DescribeConfigsResponse:
        assert isinstance(call.request, DescribeConfigsRequest)
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    error_code=0,
                    error_message=None,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    configs=[],
                )
                for each in call.request.resources
            ]
        )

    script.on(DescribeConfigsRequest, describe)
    resources = [ConfigResource.topic("t"), ConfigResource.broker(2), ConfigResource.topic("u")]
    found = script.run(lambda cluster: describe_configs(cluster, resources, names=["a"]))
    assert list(found) == resources
    asked = [call for call in script.calls if isinstance(call.request, DescribeConfigsRequest)]
    assert [call.node for call in asked] == [-1, 2]


def test_a_refused_change_says_what_the_broker_says() -> None:
    script = Script()
    refused = AlterConfigsResourceResponse(
        error_code=40, error_message="no such thing", resource_type=2, resource_name="t"
    )
    script.on(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse(responses=[refused]))
    changes = {ConfigResource.topic("t"): [ConfigChange("a", "b")]}
    with pytest.raises(BrokerError, match=r"topic 't': INVALID_CONFIG \(40\).*'no such thing'"):
        script.run(lambda cluster: alter_configs(cluster, changes))
