"""ShareAcknowledge 1-2: say what became of acquired records (KIP-932).

Answered when that is stored. For each partition everything takes effect, or nothing: one record
that the member does not have makes it INVALID_RECORD_STATE. With the final epoch (-1) the share
session ends and whatever else the member has acquired is released. From version 2 on a lock can be
renewed (KIP-1222).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import share_acknowledge
from ..shares.sessions import FINAL_EPOCH, SessionKey, ShareSessionError
from .share_requests import (
    acknowledge,
    asked_partitions,
    endpoints,
    leader_hint,
    problem_of,
    renews,
    right_to_read,
)

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_RENEW_FIRST = 2


async def handle(
    broker: Broker, context: RequestContext, request: share_acknowledge.Request
) -> share_acknowledge.Response:
    asked = await asked_partitions(broker, request.topics)
    problem = problem_of(request.group_id, request.member_id, asked)
    if problem is None and renews(asked) and not request.is_renew_ack:
        problem = "IsRenewAck must be set when a lock is renewed."
    if problem is not None:
        return share_acknowledge.Response(
            error_code=ErrorCode.INVALID_REQUEST, error_message=problem, responses=[]
        )
    key = SessionKey(request.group_id or "", request.member_id or "")
    shares, epoch = broker.shares, request.share_session_epoch
    ended = None
    try:
        if epoch == FINAL_EPOCH:
            ended = shares.sessions.close(key)
        else:
            shares.sessions.use(key, epoch, broker.clock.monotonic())
    except ShareSessionError as error:
        return share_acknowledge.Response(
            error_code=error.error_code, error_message=str(error), responses=[]
        )
    try:
        outcomes = await acknowledge(broker, key, asked, right_to_read(broker, context))
    finally:
        if ended is not None:
            shares.release(ended)
    topics: dict[bytes, share_acknowledge.TopicResponse] = {}
    leaders: dict[int, None] = {}
    for one in asked:
        code = outcomes.get(one.place, ErrorCode.NONE)
        hint = leader_hint(broker, one.place, code)
        if hint.leader_id > 0 or code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            leaders[hint.leader_id] = None
        topic = topics.setdefault(
            one.topic_id, share_acknowledge.TopicResponse(topic_id=one.topic_id, partitions=[])
        )
        topic.partitions.append(
            share_acknowledge.PartitionData(
                partition_index=one.number,
                error_code=code,
                current_leader=share_acknowledge.LeaderIdAndEpoch(
                    leader_id=hint.leader_id, leader_epoch=hint.leader_epoch
                ),
            )
        )
    limits = shares.settings_of(key.group_id).limits
    return share_acknowledge.Response(
        acquisition_lock_timeout_ms=(
            limits.lock_duration_ms if context.api_version >= _RENEW_FIRST else 0
        ),
        responses=list(topics.values()),
        node_endpoints=endpoints(broker, context, share_acknowledge.NodeEndpoint, leaders),
    )
