"""What plans ask for, and what they make of answers that no live broker gives on demand."""

from __future__ import annotations

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import create_topics as create_topics_api
from minikafka.protocol.messages import describe_configs as describe_configs_api
from minikafka.protocol.messages import describe_log_dirs as describe_log_dirs_api
from minikafka.protocol.messages import incremental_alter_configs, metadata
from minikafka.protocol.messages import list_groups as list_groups_api
from minikafka.protocol.messages import list_offsets as list_offsets_api
from minikafka_client import errors
from minikafka_client.plans.brokers import describe_log_dirs
from minikafka_client.plans.configs import alter_configs, describe_configs
from minikafka_client.plans.groups import list_groups
from minikafka_client.plans.offsets import list_offsets
from minikafka_client.plans.plan import CONTROLLER, Call
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


def created(code: ErrorCode) -> create_topics_api.Response:
    result = create_topics_api.CreatableTopicResult(name="t", error_code=code, error_message=None)
    return create_topics_api.Response(topics=[result])


def test_a_controller_that_moved_is_looked_up_and_asked_again() -> None:
    script = Script().on(
        create_topics_api.Request, created(ErrorCode.NOT_CONTROLLER), created(ErrorCode.NONE)
    )
    assert list(script.run(create_topics, [NewTopic("t")])) == ["t"]
    assert [call.node for call in script.calls if call.node == CONTROLLER] == [CONTROLLER] * 2
    assert len(script.asked(metadata.Request)) == 2
    assert script.pauses == [0]


def test_what_does_not_pass_is_raised_when_the_time_is_over() -> None:
    script = Script(retries_max=2).on(create_topics_api.Request, errors.ConnectionLostError("gone"))
    with pytest.raises(errors.ConnectionLostError, match="gone"):
        script.run(create_topics, [NewTopic("t")])
    assert script.pauses == [0, 1, 2]


def test_an_answer_that_leaves_something_out_is_noticed() -> None:
    script = Script(retries_max=0).on(
        create_topics_api.Request, create_topics_api.Response(topics=[])
    )
    with pytest.raises(errors.UnreadableResponseError, match="leaves out"):
        script.run(create_topics, [NewTopic("t")])


def test_a_mistyped_topic_fails_immediately() -> None:
    script = Script(t=[1])
    with pytest.raises(errors.UnknownTopicError):
        script.run(describe_topics, ["typo"])
    assert script.pauses == []


def test_of_several_failures_each_is_reported() -> None:
    script = Script(t=[1])
    with pytest.raises(errors.SomeFailedError, match="1 of 2 failed: topic 'typo'") as caught:
        script.run(describe_topics, ["t", "typo"])
    assert list(caught.value.succeeded) == ["t"]
    assert list(caught.value.failed) == ["typo"]
    many = {name: errors.BrokerError(3, name) for name in "abcdefg"}
    assert "and 2 more" in str(errors.SomeFailedError(many, {}))


# --- leaders -------------------------------------------------------------------------------------


def offsets_of(call: Call, *failing: tuple[TopicPartition, ErrorCode]) -> list_offsets_api.Response:
    assert isinstance(call.request, list_offsets_api.Request)
    codes = dict(failing)
    return list_offsets_api.Response(
        topics=[
            list_offsets_api.TopicResponse(
                name=topic.name,
                partitions=[
                    list_offsets_api.PartitionResponse(
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


def test_leaders_are_asked_concurrently_each_for_its_own() -> None:
    script = Script(t=[1, 2], u=[1]).on(list_offsets_api.Request, offsets_of)
    found = script.run(list_offsets, dict.fromkeys([T0, T1, U0], LATEST))
    assert {where: each.offset for where, each in found.items()} == {T0: 10, T1: 21, U0: 10}
    assert [call.node for call in script.calls[1:]] == [1, 2]


def test_only_what_failed_is_asked_for_again_and_of_the_new_leader() -> None:
    script = Script(t=[1, 1])

    def move(call: Call) -> list_offsets_api.Response:
        script.leaders["t"] = [1, 2]
        return offsets_of(call, (T1, ErrorCode.NOT_LEADER_OR_FOLLOWER))

    script.on(list_offsets_api.Request, move, offsets_of)
    found = script.run(list_offsets, {T0: LATEST, T1: LATEST})
    assert {where: each.offset for where, each in found.items()} == {T0: 10, T1: 21}
    assert len(script.asked(list_offsets_api.Request)[1].topics[0].partitions) == 1


def test_a_leader_that_cannot_be_reached_fails_its_own_partitions() -> None:
    script = Script(retries_max=0, t=[1, 2])

    def one_is_gone(call: Call) -> list_offsets_api.Response | errors.KafkaError:
        return errors.ConnectionLostError("gone") if call.node == 2 else offsets_of(call)

    script.on(list_offsets_api.Request, one_is_gone)
    with pytest.raises(errors.SomeFailedError) as caught:
        script.run(list_offsets, {T0: LATEST, T1: LATEST})
    assert list(caught.value.succeeded) == [T0]


def test_a_partition_without_leader_is_waited_for() -> None:
    script = Script(retries_max=1, t=[-1])
    with pytest.raises(errors.BrokerError, match="LEADER_NOT_AVAILABLE"):
        script.run(list_offsets, {T0: LATEST})
    with pytest.raises(errors.UnknownTopicError, match="partition 7 of topic 't'"):
        script.run(list_offsets, {TopicPartition("t", 7): LATEST})


def test_what_is_asked_for_decides_the_least_version() -> None:
    script = Script(t=[1]).on(list_offsets_api.Request, offsets_of)
    script.run(list_offsets, {T0: LATEST})
    script.run(list_offsets, {T0: MAX_TIMESTAMP})
    level = IsolationLevel.READ_COMMITTED
    script.run(list_offsets, {T0: LATEST}, isolation_level=level)
    versions = [c.version_min for c in script.calls_of(list_offsets_api.Request)]
    assert versions == [1, 7, 2]


# --- brokers and configurations ------------------------------------------------------------------


def test_every_broker_is_asked_for_its_groups_and_directories() -> None:
    script = Script().on(list_groups_api.Request, list_groups_api.Response(error_code=0, groups=[]))
    assert script.run(list_groups) == []
    script.run(list_groups, states=["Empty"])
    script.run(list_groups, types=["classic"])
    asked = script.calls_of(list_groups_api.Request)
    wanted = [(node, version) for version in (0, 4, 5) for node in (1, 2)]
    assert [(call.node, call.version_min) for call in asked] == wanted
    refused = describe_log_dirs_api.Response(error_code=31, results=[])
    script.on(describe_log_dirs_api.Request, refused)
    with pytest.raises(errors.BrokerError, match="CLUSTER_AUTHORIZATION_FAILED"):
        script.run(describe_log_dirs, [2])


def test_a_broker_that_is_down_does_not_describe_its_configs() -> None:
    script = Script(retries_max=0).on(
        describe_configs_api.Request, errors.ConnectionLostError("gone")
    )
    with pytest.raises(errors.ConnectionLostError):
        script.run(describe_configs, [ConfigResource.broker(2)])
    assert script.calls[-1].node == 2


def test_resources_are_asked_where_they_belong() -> None:
    script = Script()

    def describe(call: Call) -> describe_configs_api.Response:
        assert isinstance(call.request, describe_configs_api.Request)
        return describe_configs_api.Response(
            results=[
                describe_configs_api.Result(
                    error_code=0,
                    error_message=None,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    configs=[],
                )
                for each in call.request.resources
            ]
        )

    script.on(describe_configs_api.Request, describe)
    resources = [ConfigResource.topic("t"), ConfigResource.broker(2), ConfigResource.topic("u")]
    found = script.run(describe_configs, resources, names=["a"])
    assert list(found) == resources
    asked = script.calls_of(describe_configs_api.Request)
    assert [call.node for call in asked] == [-1, 2]


def test_a_refused_change_says_what_the_broker_says() -> None:
    script = Script()
    refused = incremental_alter_configs.ResourceResponse(
        error_code=40, error_message="no such thing", resource_type=2, resource_name="t"
    )
    script.on(
        incremental_alter_configs.Request, incremental_alter_configs.Response(responses=[refused])
    )
    changes = {ConfigResource.topic("t"): [ConfigChange("a", "b")]}
    with pytest.raises(
        errors.BrokerError, match=r"topic 't': INVALID_CONFIG \(40\).*'no such thing'"
    ):
        script.run(alter_configs, changes)
