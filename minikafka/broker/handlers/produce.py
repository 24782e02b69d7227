"""Produce 3-13: append one batch per partition; answer when acks says so.

acks=0 gets no answer (an error closes the connection, as in Kafka, so that the client notices).
acks=1 is answered after the append, or after the fsync where flush.messages is 1. acks=all is
answered when all in-sync replicas have the records: when the high watermark has passed them. It is
refused with NOT_ENOUGH_REPLICAS where fewer than min.insync.replicas are in sync, and answered with
NOT_ENOUGH_REPLICAS_AFTER_APPEND, NOT_LEADER_OR_FOLLOWER or (after the request's timeout)
REQUEST_TIMED_OUT when nobody knows whether the records will stay. A retry that turns out to be a
duplicate waits like the first attempt. From version 10 on whoever asked the wrong broker hears who
leads (KIP-951); version 13 names topics by id (KIP-516). From version 8 on the records because of
which a batch was refused are named (KIP-467).

Before the first batch of a transaction is appended to a partition, the producer's coordinator has
to confirm that the partition is in it; from version 12 on it is added by that (KIP-890).
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

import trio

from ...metadata.controller import INTERNAL_TOPICS
from ...protocol.errors import ErrorCode
from ...protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ...storage.errors import InvalidTransactionState, LogError
from ...storage.results import AppendResult
from ..acknowledgements import Acknowledgements
from ..confirming import confirm_transaction
from ..current_leader import LEADER_ELSEWHERE, current_leader, endpoints_of
from ..partition import Partition, PartitionError
from ..transport import ConnectionLostError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext

logger = logging.getLogger(__name__)

_NODE_ENDPOINTS_FIRST = 10
_TOPIC_IDS_FIRST = 13
_ACKS_ALL = -1
_ACKS = (0, 1, _ACKS_ALL)
_AT_LEISURE: Final = nullcontext()
"""Nobody waits for followers."""
_Unsynced = tuple[Partition, AppendResult, PartitionProduceResponse]
_HAND_OVER_SECONDS_MAX = 2.0
"""How long a request waits for a hand-over before it is told that the leader may be elsewhere."""


async def handle(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Acknowledgements | None:
    """Append, wait for the disk where the topic wants it, answer now or when all have it."""
    version, acks = context.api_version, request.acks
    replicas = broker.replicas
    if replicas.frozen:
        await _wait_thawed(broker, request)
    now_ms = broker.clock.wall_ms()
    unconfirmed = ErrorCode.NONE
    if request.transactional_id is not None:
        unconfirmed = await confirm_transaction(broker, version, request)
    work = _Appending(broker, request, version, now_ms, unconfirmed)
    with replicas.server.telling_followers if acks == _ACKS_ALL else _AT_LEISURE:
        topics = [
            TopicProduceResponse(
                topic_id=topic.topic_id,
                name=topic.name,
                partition_responses=[work.append(topic, asked) for asked in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    uncommitted = work.uncommitted
    if work.unsynced is not None:
        await _make_durable(broker, work.unsynced, uncommitted)
    if acks == 0:
        if work.failure is not None:
            raise ConnectionLostError(f"a produce with acks=0 failed: {work.failure}")
        return None
    response = ProduceResponse(responses=topics)
    if work.leaders is not None and version >= _NODE_ENDPOINTS_FIRST:
        response.node_endpoints = [
            NodeEndpoint(node_id=one.broker_id, host=one.host, port=one.port, rack=one.rack)
            for one in endpoints_of(broker, work.leaders)
        ]
    if uncommitted is None:
        return response
    timeout_s = max(0, request.timeout_ms) / 1000
    uncommitted.begin(response, broker.clock.monotonic() + timeout_s)
    return uncommitted


class _Appending:
    """Appends what a request brings.

    Attributes:
        unsynced: what has to be synced before it is acknowledged, None when there is nothing.
        uncommitted: what the in-sync replicas have to have, likewise.
        leaders: brokers that lead partitions that were asked for here, likewise.
        failure: why the last partition that failed did.
    """

    __slots__ = (
        "_broker",
        "_now_ms",
        "_request",
        "_unconfirmed",
        "_version",
        "failure",
        "leaders",
        "uncommitted",
        "unsynced",
    )

    def __init__(
        self,
        broker: Broker,
        request: ProduceRequest,
        version: int,
        now_ms: int,
        unconfirmed: ErrorCode,
    ) -> None:
        self._broker = broker
        self._request = request
        self._version = version
        self._now_ms = now_ms
        self._unconfirmed = unconfirmed
        self.unsynced: list[_Unsynced] | None = None
        self.uncommitted: Acknowledgements | None = None
        self.leaders: list[int] | None = None
        self.failure: str | None = None

    def append(
        self, topic: TopicProduceData, asked: PartitionProduceData
    ) -> PartitionProduceResponse:
        """Append one partition's batch; the answer may change until the request is answered."""
        broker, acks, version = self._broker, self._request.acks, self._version
        try:
            name = topic.name
            if version >= _TOPIC_IDS_FIRST:
                name = broker.topic_name(name, topic.topic_id, by_id=True)
            partition = broker.partition(name, asked.index)
            if acks not in _ACKS or name in INTERNAL_TOPICS:
                raise _no_client_may(acks, name)
            if acks == _ACKS_ALL and not partition.is_alone:
                partition.check_in_sync()
            records = asked.records
            if records is None:
                raise PartitionError(ErrorCode.INVALID_RECORD, "null instead of a record batch")
            result = partition.append(records, now_ms=self._now_ms, version=version)  # type: ignore[arg-type]  # decoded records are a memoryview
        except (PartitionError, LogError) as error:
            return self._refused(topic, asked, error)
        answer = PartitionProduceResponse(
            index=asked.index,
            error_code=0,
            base_offset=result.base_offset,
            log_append_time_ms=result.log_append_time_ms,
            log_start_offset=result.log_start_offset,
        )
        if partition.topic.is_fsync_acked:
            self.unsynced = self.unsynced or []
            self.unsynced.append((partition, result, answer))
        if (
            acks == _ACKS_ALL
            and not partition.is_alone
            and partition.log.high_watermark <= result.last_offset
        ):
            self.uncommitted = self.uncommitted or Acknowledgements()
            self.uncommitted.add(partition, result.last_offset + 1, answer)
        return answer

    def _refused(
        self, topic: TopicProduceData, asked: PartitionProduceData, error: PartitionError | LogError
    ) -> PartitionProduceResponse:
        code = error.error_code
        if self._unconfirmed and isinstance(error, InvalidTransactionState):
            code = self._unconfirmed
        self.failure = str(error)
        answer = PartitionProduceResponse(
            index=asked.index,
            error_code=code,
            base_offset=-1,
            log_append_time_ms=-1,
            log_start_offset=-1,
            error_message=self.failure,
        )
        if isinstance(error, LogError) and error.record_errors:
            answer.record_errors = [
                BatchIndexAndErrorMessage(
                    batch_index=one.batch_index, batch_index_error_message=one.message
                )
                for one in error.record_errors
            ]
        if code in LEADER_ELSEWHERE:
            leader = current_leader(self._broker, topic.name, topic.topic_id, asked.index)
            answer.current_leader = LeaderIdAndEpoch(
                leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
            )
            self.leaders = [*(self.leaders or ()), leader.leader_id]
        return answer


async def _wait_thawed(broker: Broker, request: ProduceRequest) -> None:
    """Wait for the outcome of hand-overs: records go on here, or another broker leads."""
    wanted = {
        (topic.name or topic.topic_id, asked.index)
        for topic in request.topic_data
        for asked in topic.partition_data
    }
    with trio.move_on_after(_HAND_OVER_SECONDS_MAX):
        for partition in list(broker.replicas.frozen):
            topic = partition.topic
            if not wanted.isdisjoint(
                {(topic.name, partition.index), (topic.topic_id, partition.index)}
            ):
                await partition.wait_thawed()


def _no_client_may(acks: int, topic: str) -> PartitionError:
    """What to raise for a request that can be refused without looking at the records."""
    if acks not in _ACKS:
        return PartitionError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}; use 0, 1 or -1 (all)")
    return PartitionError(
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"{topic} is internal; clients cannot produce to it",
    )


async def _make_durable(
    broker: Broker,
    unsynced: list[_Unsynced],
    uncommitted: Acknowledgements | None,
) -> None:
    """Wait for the disk here, while the in-sync replicas fetch."""
    is_complete = False
    try:
        for partition, result, answer in unsynced:
            try:
                await broker.make_durable(partition, result.last_offset + 1)
            except LogError as error:
                answer.error_code = error.error_code
                answer.base_offset = -1
                answer.error_message = str(error)
        is_complete = True
    finally:
        if uncommitted is not None and not is_complete:
            uncommitted.give_up()  # the client is gone
