"""TxnOffsetCommit 0-6: offsets that take effect when the transaction commits (KIP-98, KIP-447).

Before the first of them is stored, the transaction coordinator confirms the transaction (KIP-890);
from version 5 on that also adds the group's partition, so that AddOffsetsToTxn is not needed. From
version 6 on topics have ids and no names (KIP-1319).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...coordinator.group.responses import transactional_commit_refused
from ...protocol.errors import ErrorCode
from ...protocol.messages import txn_offset_commit
from ..coordinators.internal_topics import OFFSETS_TOPIC
from ..coordinators.transactions import Confirmation
from ..replicas.partition import PartitionError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_ABORTABLE_FIRST = 4
_ADDS_FIRST = 5
_TOPIC_IDS_FIRST = 6


async def handle(
    broker: Broker, context: RequestContext, request: txn_offset_commit.Request
) -> txn_offset_commit.Response:
    version = context.api_version
    asked = request.topics
    code = await _confirm(broker, version, request)
    if code is not ErrorCode.NONE:
        return _refuse(request, asked, code)
    by_id = version >= _TOPIC_IDS_FIRST
    image = broker.image
    if by_id:
        for topic in asked:
            of_id = image.topics_by_id.get(topic.topic_id)
            topic.name = "" if of_id is None else of_id.name
    request.topics = [topic for topic in asked if topic.name in image.topics]
    unknown = [topic for topic in asked if topic.name not in image.topics]
    not_known = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not request.topics:
        return _refuse(request, unknown, not_known)
    ids = {topic.name: topic.topic_id for topic in request.topics}
    answer = cast(
        "txn_offset_commit.Response", await broker.groups.ask(request.group_id, request, context)
    )
    _ask_again_if_unconfirmed(answer)
    for answered in answer.topics:
        answered.topic_id = ids[answered.name]
    answer.topics += _refuse(request, unknown, not_known).topics
    return answer


def _refuse(
    request: txn_offset_commit.Request,
    topics: list[txn_offset_commit.RequestTopic],
    code: ErrorCode,
) -> txn_offset_commit.Response:
    request.topics = topics
    answer = transactional_commit_refused(request, code)
    for asked, answered in zip(topics, answer.topics, strict=True):
        answered.topic_id = asked.topic_id
    return answer


def _ask_again_if_unconfirmed(answer: txn_offset_commit.Response) -> None:
    """Make clients retry when a marker was written after the coordinator's confirmation.

    INVALID_TXN_STATE would be fatal for their producers. After a retry they get the coordinator's
    own error.
    """
    for topic in answer.topics:
        for one in topic.partitions:
            if one.error_code == ErrorCode.INVALID_TXN_STATE:
                one.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def _confirm(broker: Broker, version: int, request: txn_offset_commit.Request) -> ErrorCode:
    try:
        number = broker.groups.runtime.partition_of(request.group_id)
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
        # This broker has to ask the transaction coordinator again, so the client must retry here.
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return code
