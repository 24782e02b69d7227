"""TxnOffsetCommit 0-5: offsets that count when the transaction commits (KIP-98, KIP-447).

Before the first of them is stored, the producer's coordinator confirms the transaction (KIP-890);
from version 5 on it adds the group's partition to it, so that AddOffsetsToTxn is not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...coordinator.group.responses import transactional_commit_refused
from ...protocol.errors import ErrorCode
from ...protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ...storage.errors import LogError
from ..groups import OFFSETS_TOPIC
from ..partition import PartitionError
from ..transactions import Confirmation

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext

_ABORTABLE_FIRST = 4
_ADDS_FIRST = 5


async def handle(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    """Have the transaction confirmed, sort out unknown topics, ask the group's shard."""
    version = context.api_version
    code = await _confirm(broker, version, request)
    if code is not ErrorCode.NONE:
        return transactional_commit_refused(request, code)
    asked = request.topics
    image = broker.image
    request.topics = [topic for topic in asked if topic.name in image.topics]
    unknown = [topic for topic in asked if topic.name not in image.topics]
    refused = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(
                    partition_index=one.partition_index,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
                for one in topic.partitions
            ],
        )
        for topic in unknown
    ]
    if not request.topics:
        return TxnOffsetCommitResponse(topics=refused)
    try:
        answer = cast(
            "TxnOffsetCommitResponse", await broker.groups.ask(request.group_id, request, context)
        )
    except (PartitionError, LogError) as error:
        answer = transactional_commit_refused(request, ErrorCode(error.error_code))
    _ask_again_if_unconfirmed(answer)
    answer.topics += refused
    return answer


def _ask_again_if_unconfirmed(answer: TxnOffsetCommitResponse) -> None:
    """The coordinator had confirmed the transaction, and a marker came in between.

    Clients take INVALID_TXN_STATE for the end of their producer. Asked once more, the coordinator
    says what it is.
    """
    for topic in answer.topics:
        for one in topic.partitions:
            if one.error_code == ErrorCode.INVALID_TXN_STATE:
                one.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def _confirm(broker: Broker, version: int, request: TxnOffsetCommitRequest) -> ErrorCode:
    try:
        number = broker.groups.partition_of(request.group_id)
        partition = broker.partition(OFFSETS_TOPIC, number)
    except PartitionError as error:
        if error.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return ErrorCode.NOT_COORDINATOR
        return error.error_code
    confirmation = Confirmation(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        adds=version >= _ADDS_FIRST,
    )
    code = await broker.transactions.confirm(confirmation, [partition])
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.INVALID_TXN_STATE and version >= _ABORTABLE_FIRST:
        return ErrorCode.TRANSACTION_ABORTABLE
    if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS):
        # It is the transaction's coordinator that has to be asked again, and by this broker.
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return code
