"""Plans for groups of all kinds: list, describe, delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.exceptions import MalformedMessageError
from minikafka.protocol.messages import (
    consumer_group_describe,
    share_group_describe,
    streams_group_describe,
)
from minikafka.protocol.messages import delete_groups as delete_groups_api
from minikafka.protocol.messages import describe_groups as describe_groups_api
from minikafka.protocol.messages import list_groups as list_groups_api
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    Subscription,
    decode_assignment,
)
from minikafka_client.errors import KafkaError, UnsupportedByBrokerError, broker_error
from minikafka_client.plans.coordinators import at_coordinators
from minikafka_client.plans.plan import Call, Plan, call_all
from minikafka_client.plans.rounds import in_rounds, outcome_of, refresh_metadata
from minikafka_client.types import GroupDescription, GroupListing, MemberDescription, TopicPartition

_STATES_VERSION = 4
_TYPES_VERSION = 5


def list_groups(
    cluster: Cluster, *, states: Iterable[str] = (), types: Iterable[str] = ()
) -> Plan[list[GroupListing]]:
    """List the groups of all brokers, sorted by id; filters need a broker that knows them.

    Raises:
        KafkaError: the only broker did not answer.
        SomeFailedError: some of several brokers did not answer.
    """
    states_filter, types_filter = list(states), list(types)
    version_min = _TYPES_VERSION if types_filter else _STATES_VERSION if states_filter else 0
    request = list_groups_api.Request(states_filter=states_filter, types_filter=types_filter)

    def attempt(nodes: Sequence[int]) -> Plan[Mapping[int, list[GroupListing] | KafkaError]]:
        answers = yield from call_all(
            [Call(node, request, version_min) for node in nodes], list_groups_api.Response
        )
        return {
            node: answer if isinstance(answer, KafkaError) else _listed(node, answer)
            for node, answer in zip(nodes, answers, strict=True)
        }

    yield from refresh_metadata()
    found = yield from in_rounds(sorted(cluster.brokers), attempt)
    return sorted((group for groups in found.values() for group in groups), key=_group_id)


def _group_id(listing: GroupListing) -> str:
    return listing.group_id


def _listed(node: int, response: list_groups_api.Response) -> list[GroupListing] | KafkaError:
    groups = [
        GroupListing(group.group_id, group.protocol_type, group.group_state, group.group_type)
        for group in response.groups
    ]
    return outcome_of(groups, response.error_code, f"groups of broker {node}")


def describe_groups(
    cluster: Cluster, group_ids: Iterable[str]
) -> Plan[dict[str, GroupDescription]]:
    """Describe groups of any kind; one that does not exist has state ``Dead``.

    Raises:
        BrokerError: the only group asked for cannot be described.
        SomeFailedError: some of several groups cannot be described.
    """

    def attempt(wanted: Sequence[str]) -> Plan[_Descriptions]:
        outcome = dict((yield from _describe_classic(cluster, wanted)))
        for describe in (_describe_consumer, _describe_share, _describe_streams):
            missing = [
                group_id
                for group_id, found in outcome.items()
                if isinstance(found, GroupDescription) and found.state == _DEAD
            ]
            if missing:
                found = yield from describe(cluster, missing)
                outcome |= {
                    group_id: each for group_id, each in found.items() if not _is_not_here(each)
                }
        return outcome

    return in_rounds(group_ids, attempt)


_DEAD: Final = "Dead"
_Descriptions = Mapping[str, "GroupDescription | KafkaError"]


def _is_not_here(found: GroupDescription | KafkaError) -> bool:
    """Whether the broker knows no such group of this kind, or no such kind."""
    return isinstance(found, UnsupportedByBrokerError) or (
        isinstance(found, KafkaError)
        and found.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
    )


def _describe_classic(cluster: Cluster, group_ids: Sequence[str]) -> Plan[_Descriptions]:
    return at_coordinators(
        cluster,
        group_ids,
        lambda node, asked: Call(node, describe_groups_api.Request(groups=list(asked))),
        describe_groups_api.Response,
        lambda node, answer: {each.group_id: _group(node, each) for each in answer.groups},
    )


def _describe_consumer(cluster: Cluster, group_ids: Sequence[str]) -> Plan[_Descriptions]:
    return at_coordinators(
        cluster,
        group_ids,
        lambda node, asked: Call(
            node,
            consumer_group_describe.Request(
                group_ids=list(asked), include_authorized_operations=False
            ),
        ),
        consumer_group_describe.Response,
        lambda node, answer: {each.group_id: _newer_group(node, each) for each in answer.groups},
    )


def _describe_share(cluster: Cluster, group_ids: Sequence[str]) -> Plan[_Descriptions]:
    return at_coordinators(
        cluster,
        group_ids,
        lambda node, asked: Call(node, share_group_describe.Request(group_ids=list(asked))),
        share_group_describe.Response,
        lambda node, answer: {each.group_id: _newer_group(node, each) for each in answer.groups},
    )


def _describe_streams(cluster: Cluster, group_ids: Sequence[str]) -> Plan[_Descriptions]:
    return at_coordinators(
        cluster,
        group_ids,
        lambda node, asked: Call(
            node,
            streams_group_describe.Request(
                group_ids=list(asked), include_authorized_operations=False
            ),
        ),
        streams_group_describe.Response,
        lambda node, answer: {each.group_id: _streams_group(node, each) for each in answer.groups},
    )


def _streams_group(
    node: int, group: streams_group_describe.DescribedGroup
) -> GroupDescription | KafkaError:
    if group.error_code:
        return broker_error(group.error_code, f"group {group.group_id!r}", group.error_message)
    subtopologies = [] if group.topology is None else group.topology.subtopologies or []
    topics = {
        one.subtopology_id: (
            *one.source_topics,
            *(topic.name for topic in one.repartition_source_topics),
        )
        for one in subtopologies
    }
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        protocol_type="streams",
        assignor=group.assignor_name or "",
        members=tuple(_streams_member(member, topics) for member in group.members),
        coordinator=node,
        type="Streams",
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
    )


def _streams_member(
    member: streams_group_describe.Member, topics: Mapping[str, Sequence[str]]
) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted({name for names in topics.values() for name in names})),
        assignment=_partitions_of_tasks(member.assignment, topics),
        member_epoch=member.member_epoch,
        target_assignment=_partitions_of_tasks(member.target_assignment, topics),
        rack_id=member.rack_id,
        active_tasks=_task_names(member.assignment.active_tasks),
        standby_tasks=_task_names(member.assignment.standby_tasks),
        process_id=member.process_id,
    )


def _partitions_of_tasks(
    assignment: streams_group_describe.Assignment, topics: Mapping[str, Sequence[str]]
) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic, index)
        for task in assignment.active_tasks
        for topic in topics.get(task.subtopology_id, ())
        for index in task.partitions
    )


def _task_names(tasks: Iterable[streams_group_describe.TaskIds]) -> tuple[str, ...]:
    return tuple(f"{task.subtopology_id}_{index}" for task in tasks for index in task.partitions)


def _newer_group(
    node: int,
    group: consumer_group_describe.DescribedGroup | share_group_describe.DescribedGroup,
) -> GroupDescription | KafkaError:
    if group.error_code:
        return broker_error(group.error_code, f"group {group.group_id!r}", group.error_message)
    is_share = isinstance(group, share_group_describe.DescribedGroup)
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        protocol_type="share" if is_share else CONSUMER_PROTOCOL_TYPE,
        assignor=group.assignor_name,
        members=tuple(_newer_member(member) for member in group.members),
        coordinator=node,
        type="Share" if is_share else "Consumer",
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
    )


def _newer_member(
    member: consumer_group_describe.Member | share_group_describe.Member,
) -> MemberDescription:
    described = MemberDescription(
        member_id=member.member_id,
        group_instance_id=None,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(member.subscribed_topic_names),
        assignment=_partitions(member.assignment),
        member_epoch=member.member_epoch,
        rack_id=member.rack_id,
    )
    if isinstance(member, share_group_describe.Member):
        return described
    return described._replace(
        group_instance_id=member.instance_id,
        target_assignment=_partitions(member.target_assignment),
        topic_pattern=member.subscribed_topic_regex or None,
    )


def _partitions(
    assignment: consumer_group_describe.Assignment | share_group_describe.Assignment,
) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, index)
        for topic in assignment.topic_partitions
        for index in topic.partitions
    )


def _group(node: int, group: describe_groups_api.DescribedGroup) -> GroupDescription | KafkaError:
    # Version 6 answers "no such group" where older ones answer with a group in state Dead.
    if group.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        return broker_error(group.error_code, f"group {group.group_id!r}", group.error_message)
    is_consumer = group.protocol_type == CONSUMER_PROTOCOL_TYPE
    members = tuple(_member(member, is_consumer) for member in group.members)
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state or _DEAD,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        members=members,
        coordinator=node,
    )


def _member(
    member: describe_groups_api.DescribedGroupMember, is_consumer: bool
) -> MemberDescription:
    topics: tuple[str, ...] = ()
    assignment: tuple[TopicPartition, ...] = ()
    if is_consumer:
        try:
            if member.member_metadata:
                topics = Subscription.decode(member.member_metadata).topics
            assignment, _ = decode_assignment(member.member_assignment)
        except MalformedMessageError:
            # Another client's bytes are no reason not to describe the rest of the group.
            topics = topics or ()
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=topics,
        assignment=assignment,
    )


def delete_groups(cluster: Cluster, group_ids: Iterable[str]) -> Plan[None]:
    """Delete groups without members, and their offsets.

    Raises:
        BrokerError: the only group asked for was refused (NON_EMPTY_GROUP, ...).
        SomeFailedError: some of several groups were refused.
    """

    def make_call(node: int, asked: Sequence[str]) -> Call:
        return Call(node, delete_groups_api.Request(groups_names=list(asked)))

    def read(_node: int, response: delete_groups_api.Response) -> Mapping[str, KafkaError | None]:
        return {
            group.group_id: outcome_of(None, group.error_code, f"group {group.group_id!r}")
            for group in response.results
        }

    yield from in_rounds(
        group_ids,
        lambda wanted: at_coordinators(
            cluster, wanted, make_call, delete_groups_api.Response, read
        ),
    )
