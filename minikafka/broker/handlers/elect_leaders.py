"""ElectLeaders 0-2: elect preferred replicas, or elect uncleanly (KIP-183, KIP-460).

Version 0 can only elect preferred replicas. Null partitions mean all that need an election, and the
answer omits the others. A live leader hands over without losing a record, and the answer waits for
that within the request's timeout; a partition that takes longer gets REQUEST_TIMED_OUT and changes
its leader a little later.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from ...metadata.decision import Decision
from ...metadata.elections import Election, ElectionKind, elect_leaders
from ...metadata.records import NO_LEADER
from ...protocol.errors import ErrorCode
from ...protocol.messages import elect_leaders as elect_leaders_api
from ..quorum.change_error import ChangeError
from ..system.pace import PIECE_ENTRIES, Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_WAIT_SECONDS_MAX = 10.0
_ERROR_FOR_ALL_FIRST = 1


async def handle(
    broker: Broker, context: RequestContext, request: elect_leaders_api.Request
) -> elect_leaders_api.Response:
    pace = Pace(broker.clock.monotonic)
    partitions = None
    if request.topic_partitions is not None:
        asked = {
            (topic.topic, number): None
            async for topic in pace.each(request.topic_partitions)
            async for number in pace.each(topic.partitions)
        }
        partitions = list(asked)
    try:
        kind = ElectionKind(request.election_type)
    except ValueError:
        return _failed(context, partitions, ErrorCode.INVALID_REQUEST, "Unknown election type.")

    def decide(piece: list[tuple[str, int]] | None) -> Decision[list[Election]]:
        return elect_leaders(broker.image, kind, piece, broker.settings.replication_rules())

    elections: list[Election] = []
    try:
        for start in range(0, len(partitions or ()) or 1, PIECE_ENTRIES):
            piece = None if partitions is None else partitions[start : start + PIECE_ENTRIES]
            elections += await broker.controller.change(partial(decide, piece))
    except ChangeError as error:
        return _failed(context, partitions, error.error_code, error.message)
    seconds = min(max(request.timeout_ms, 0) / 1000, _WAIT_SECONDS_MAX)
    with trio.move_on_after(seconds):
        async for election in pace.each(elections):
            while _is_handing_over(broker, election):
                await broker.store.next_change()
    results: dict[str, list[elect_leaders_api.PartitionResult]] = {}
    async for election in pace.each(elections):
        results.setdefault(election.topic, []).append(_result(broker, election))
    return elect_leaders_api.Response(
        error_code=ErrorCode.NONE,
        replica_election_results=[
            elect_leaders_api.ReplicaElectionResult(topic=topic, partition_result=of_topic)
            for topic, of_topic in results.items()
        ],
    )


def _is_handing_over(broker: Broker, election: Election) -> bool:
    """Whether the hand-over by the current leader is still pending."""
    if not election.is_pending:
        return False
    topic = broker.image.topics.get(election.topic)
    if topic is None or election.partition >= len(topic.partitions):
        return False
    return topic.partitions[election.partition].next_leader != NO_LEADER


def _result(broker: Broker, election: Election) -> elect_leaders_api.PartitionResult:
    number, refusal = election.partition, election.refusal
    if refusal is not None:
        code, message = refusal
        return elect_leaders_api.PartitionResult(
            partition_id=number, error_code=code, error_message=message
        )
    code, text = ErrorCode.NONE, None
    if election.is_pending:
        topic = broker.image.topics.get(election.topic)
        partition = None if topic is None else topic.partitions[number]
        if partition is None:
            code, text = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "The topic was deleted in the meantime.",
            )
        elif partition.next_leader != NO_LEADER:
            code = ErrorCode.REQUEST_TIMED_OUT
            text = f"Broker {partition.leader} has not handed over yet; it will."
        elif partition.leader != partition.replicas[0]:
            code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            text = f"Broker {partition.replicas[0]} left the ISR before it could take over."
    return elect_leaders_api.PartitionResult(
        partition_id=number, error_code=code, error_message=text
    )


def _failed(
    context: RequestContext,
    partitions: list[tuple[str, int]] | None,
    code: ErrorCode,
    message: str,
) -> elect_leaders_api.Response:
    if context.api_version >= _ERROR_FOR_ALL_FIRST:
        return elect_leaders_api.Response(error_code=code, replica_election_results=[])
    results: dict[str, list[elect_leaders_api.PartitionResult]] = {}
    for topic, number in partitions or ():
        failed = elect_leaders_api.PartitionResult(
            partition_id=number, error_code=code, error_message=message
        )
        results.setdefault(topic, []).append(failed)
    return elect_leaders_api.Response(
        replica_election_results=[
            elect_leaders_api.ReplicaElectionResult(topic=topic, partition_result=of_topic)
            for topic, of_topic in results.items()
        ]
    )
