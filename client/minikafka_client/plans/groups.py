"""Plans for consumer groups: list, describe, delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.exceptions import MalformedMessageError
from minikafka.protocol.messages import delete_groups as delete_groups_api
from minikafka.protocol.messages import describe_groups as describe_groups_api
from minikafka.protocol.messages import list_groups as list_groups_api
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    Subscription,
    decode_assignment,
)
from minikafka_client.errors import KafkaError, broker_error
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
    """Describe groups; one that does not exist has state ``Dead``.

    Raises:
        BrokerError: the only group asked for cannot be described.
        SomeFailedError: some of several groups cannot be described.
    """

    def make_call(node: int, asked: Sequence[str]) -> Call:
        return Call(node, describe_groups_api.Request(groups=list(asked)))

    def read(
        node: int, response: describe_groups_api.Response
    ) -> Mapping[str, GroupDescription | KafkaError]:
        return {group.group_id: _group(node, group) for group in response.groups}

    return in_rounds(
        group_ids,
        lambda wanted: at_coordinators(
            cluster, wanted, make_call, describe_groups_api.Response, read
        ),
    )


def _group(node: int, group: describe_groups_api.DescribedGroup) -> GroupDescription | KafkaError:
    # Version 6 answers "no such group" where older ones answer with a group in state Dead.
    if group.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        return broker_error(group.error_code, f"group {group.group_id!r}", group.error_message)
    is_consumer = group.protocol_type == CONSUMER_PROTOCOL_TYPE
    members = tuple(_member(member, is_consumer) for member in group.members)
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state or "Dead",
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
