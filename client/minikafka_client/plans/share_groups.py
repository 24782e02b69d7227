"""Plans for share groups (KIP-932): where their partitions start; list, alter (reset), delete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from minikafka.protocol.messages import (
    alter_share_group_offsets as alter_api,
)
from minikafka.protocol.messages import (
    delete_share_group_offsets as delete_api,
)
from minikafka.protocol.messages import (
    describe_share_group_offsets as describe_api,
)
from minikafka.protocol.schema import Response
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import KafkaError, broker_error
from minikafka_client.plans.coordinators import find_coordinators
from minikafka_client.plans.plan import Call, Plan
from minikafka_client.plans.rounds import by_topic, in_rounds, outcome_of
from minikafka_client.types import ShareGroupOffset, TopicPartition

_Response = TypeVar("_Response", bound=Response)
_Offsets = dict[TopicPartition, ShareGroupOffset]


def list_share_group_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition] | None = None
) -> Plan[_Offsets]:
    """Where a share group's partitions start (None: of all that it has read).

    Partitions that it has not begun to read are left out.

    Raises:
        BrokerError: the group, or one of its partitions, was refused.
    """
    topics = None
    if partitions is not None:
        topics = [
            describe_api.RequestTopic(topic_name=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    group = describe_api.RequestGroup(group_id=group_id, topics=topics)
    request = describe_api.Request(groups=[group])

    def attempt(_keys: Sequence[str]) -> Plan[Mapping[str, _Offsets | KafkaError]]:
        response = yield from _at_coordinator(
            cluster, group_id, lambda node: Call(node, request), describe_api.Response
        )
        return {each.group_id: _offsets_of(each) for each in response.groups}

    return (yield from in_rounds([group_id], attempt))[group_id]


def _offsets_of(group: describe_api.ResponseGroup) -> _Offsets | KafkaError:
    if group.error_code:
        return broker_error(
            group.error_code, f"share group {group.group_id!r}", group.error_message
        )
    found: _Offsets = {}
    for topic in group.topics:
        for each in topic.partitions:
            subject = f"partition {each.partition_index} of topic {topic.topic_name!r}"
            if each.error_code:
                return broker_error(each.error_code, subject, each.error_message)
            if each.start_offset >= 0:
                found[TopicPartition(topic.topic_name, each.partition_index)] = ShareGroupOffset(
                    each.start_offset, each.leader_epoch, None if each.lag < 0 else each.lag
                )
    return found


def alter_share_group_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]
) -> Plan[None]:
    """Let a share group without members start at these offsets (a reset).

    Raises:
        BrokerError: the group has members (NON_EMPTY_GROUP), or the only partition was refused.
        SomeFailedError: some of several partitions were refused.
    """

    def attempt(
        asked: Sequence[TopicPartition],
    ) -> Plan[Mapping[TopicPartition, KafkaError | None]]:
        topics = [
            alter_api.RequestTopic(
                topic_name=topic,
                partitions=[
                    alter_api.RequestPartition(
                        partition_index=index, start_offset=offsets[TopicPartition(topic, index)]
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(asked).items()
        ]
        request = alter_api.Request(group_id=group_id, topics=topics)
        response = yield from _at_coordinator(
            cluster, group_id, lambda node: Call(node, request), alter_api.Response
        )
        if response.error_code:
            return dict.fromkeys(asked, _refused(group_id, response))
        return {
            TopicPartition(topic.topic_name, each.partition_index): outcome_of(
                None,
                each.error_code,
                f"start offset of partition {each.partition_index} of topic {topic.topic_name!r}",
                each.error_message,
            )
            for topic in response.responses
            for each in topic.partitions
        }

    yield from in_rounds(offsets, attempt)


def delete_share_group_offsets(
    cluster: Cluster, group_id: str, topics: Iterable[str]
) -> Plan[None]:
    """Let a share group without members forget what it has read of topics.

    Raises:
        BrokerError: the group has members (NON_EMPTY_GROUP), or the only topic was refused.
        SomeFailedError: some of several topics were refused.
    """

    def attempt(asked: Sequence[str]) -> Plan[Mapping[str, KafkaError | None]]:
        request = delete_api.Request(
            group_id=group_id, topics=[delete_api.RequestTopic(topic_name=name) for name in asked]
        )
        response = yield from _at_coordinator(
            cluster, group_id, lambda node: Call(node, request), delete_api.Response
        )
        if response.error_code:
            return dict.fromkeys(asked, _refused(group_id, response))
        return {
            topic.topic_name: outcome_of(
                None, topic.error_code, f"topic {topic.topic_name!r}", topic.error_message
            )
            for topic in response.responses
        }

    yield from in_rounds(topics, attempt)


def _refused(group_id: str, response: alter_api.Response | delete_api.Response) -> KafkaError:
    return broker_error(response.error_code, f"share group {group_id!r}", response.error_message)


def _at_coordinator(
    cluster: Cluster,
    group_id: str,
    make_call: Callable[[int], Call],
    response_type: type[_Response],
) -> Plan[_Response]:
    node = (yield from find_coordinators(cluster, [group_id]))[group_id]
    if isinstance(node, KafkaError):
        raise node
    response = yield make_call(node)
    assert isinstance(response, response_type)
    return response
