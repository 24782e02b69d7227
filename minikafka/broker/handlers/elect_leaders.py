"""ElectLeaders 0-2: let preferred replicas lead again, or elect uncleanly (KIP-183, KIP-460).

Version 0 can only ask for preferred replicas. Null partitions mean all that need an election; their
answer leaves out those that do not. A leader that lives hands over by itself, without losing a
record, so the answer waits, within the request's time, until it has; a partition that takes longer
is answered with REQUEST_TIMED_OUT and changes a little later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ...metadata.decision import Decision
from ...metadata.elections import Election, ElectionKind, elect_leaders
from ...metadata.image import NO_LEADER
from ...protocol.errors import ErrorCode
from ...protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ..change_error import ChangeError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext

_WAIT_SECONDS_MAX = 10.0
_ERROR_FOR_ALL_FIRST = 1


async def handle(
    broker: Broker, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Elect, and wait for the hand-overs."""
    partitions = None
    if request.topic_partitions is not None:
        partitions = [
            (topic.topic, number)
            for topic in request.topic_partitions
            for number in topic.partitions
        ]
    try:
        kind = ElectionKind(request.election_type)
    except ValueError:
        return _failed(context, partitions, ErrorCode.INVALID_REQUEST, "Unknown election type.")

    def decide() -> Decision[list[Election]]:
        return elect_leaders(broker.image, kind, partitions, broker.replication_rules())

    try:
        elections = await broker.change(decide)
    except ChangeError as error:
        return _failed(context, partitions, error.error_code, error.message)
    seconds = min(max(request.timeout_ms, 0) / 1000, _WAIT_SECONDS_MAX)
    with trio.move_on_after(seconds):
        for election in elections:
            while _goes_on(broker, election):
                await broker.store.next_change()
    results: dict[str, list[PartitionResult]] = {}
    for election in elections:
        results.setdefault(election.topic, []).append(_result(broker, election))
    return ElectLeadersResponse(
        error_code=ErrorCode.NONE,
        replica_election_results=[
            ReplicaElectionResult(topic=topic, partition_result=of_topic)
            for topic, of_topic in results.items()
        ],
    )


def _goes_on(broker: Broker, election: Election) -> bool:
    """Whether the present leader is still asked to hand over."""
    if not election.is_pending:
        return False
    topic = broker.image.topics.get(election.topic)
    if topic is None or election.partition >= len(topic.partitions):
        return False
    return topic.partitions[election.partition].next_leader != NO_LEADER


def _result(broker: Broker, election: Election) -> PartitionResult:
    number, refusal = election.partition, election.refusal
    if refusal is not None:
        code, message = refusal
        return PartitionResult(partition_id=number, error_code=code, error_message=message)
    code, text = ErrorCode.NONE, None
    if election.is_pending:
        topic = broker.image.topics.get(election.topic)
        partition = None if topic is None else topic.partitions[number]
        if partition is None:
            code, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic was deleted meanwhile."
        elif partition.next_leader != NO_LEADER:
            code = ErrorCode.REQUEST_TIMED_OUT
            text = f"Broker {partition.leader} has not handed over yet; it will."
        elif partition.leader != partition.replicas[0]:
            code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            text = f"Broker {partition.replicas[0]} left the ISR before it could take over."
    return PartitionResult(partition_id=number, error_code=code, error_message=text)


def _failed(
    context: RequestContext,
    partitions: list[tuple[str, int]] | None,
    code: ErrorCode,
    message: str,
) -> ElectLeadersResponse:
    if context.api_version >= _ERROR_FOR_ALL_FIRST:
        return ElectLeadersResponse(error_code=code, replica_election_results=[])
    results: dict[str, list[PartitionResult]] = {}
    for topic, number in partitions or ():
        failed = PartitionResult(partition_id=number, error_code=code, error_message=message)
        results.setdefault(topic, []).append(failed)
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(topic=topic, partition_result=of_topic)
            for topic, of_topic in results.items()
        ]
    )
