"""Produce 3-13: append one batch per partition; answer according to acks.

acks=0 gets no answer (as in Kafka an error closes the connection, so that the client notices).
acks=1 is answered after the append, or after the fsync if flush.messages is 1. acks=all is answered
when all in-sync replicas have the records: when the high watermark has passed them. It is refused
with NOT_ENOUGH_REPLICAS if fewer than min.insync.replicas are in sync, and answered with
NOT_ENOUGH_REPLICAS_AFTER_APPEND, NOT_LEADER_OR_FOLLOWER or (after the request's timeout)
REQUEST_TIMED_OUT if it is unknown whether the records will survive. A retry that turns out to be a
duplicate waits like the first attempt. From version 8 on an answer lists the records that caused a
batch to be refused (KIP-467), from version 10 on the current leader if that is another broker
(KIP-951); version 13 names topics by id (KIP-516). A request that names a partition twice is
refused with INVALID_REQUEST as a whole.

Before the first batch of a transaction is appended to a partition, the transaction coordinator must
confirm that the partition is in it; from version 12 on that also adds the partition (KIP-890).
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from itertools import islice, starmap
from typing import TYPE_CHECKING, Final

import trio

from ...metadata.topics import INTERNAL_TOPICS
from ...protocol.errors import ErrorCode
from ...protocol.messages import produce
from ...storage.errors import InvalidTransactionState, LogError
from ...storage.log import AppendResult
from ...storage.validation import Inspection, RecordsUnread
from ..replicas.inspection import Budget
from ..replicas.partition import Partition, PartitionError
from ..system.pace import Pace
from ..transport.transport import ConnectionLostError
from .acknowledgements import Acknowledgements
from .current_leader import LEADER_ELSEWHERE, current_leader, endpoints_of
from .verification import confirm_transaction

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

logger = logging.getLogger(__name__)

_NODE_ENDPOINTS_FIRST = 10
_TOPIC_IDS_FIRST = 13
_ACKS_ALL = -1
_ACKS = (0, 1, _ACKS_ALL)
_NO_BATCHING: Final = nullcontext()
"""Without acks=all no request waits for followers."""
_Unsynced = tuple[Partition, AppendResult, produce.PartitionResponse]
_UNREAD: Final = produce.PartitionResponse(index=-1, error_code=-1, base_offset=-1)
_PARTITIONS_PER_TURN = 32
_HAND_OVER_SECONDS_MAX = 2.0
"""How long a request waits for a hand-over before it gets an error."""


async def handle(
    broker: Broker, context: RequestContext, request: produce.Request
) -> produce.Response | Acknowledgements | None:
    version, acks = context.api_version, request.acks
    replicas = broker.replicas
    if replicas.frozen:
        await _wait_thawed(broker, request)
    now_ms = broker.clock.wall_ms()
    unconfirmed = ErrorCode.NONE
    if request.transactional_id is not None:
        unconfirmed = await confirm_transaction(broker, version, request)
    work = _Appends(broker, request, version, now_ms, unconfirmed)
    if len(request.topic_data) > 1 or (
        request.topic_data and len(request.topic_data[0].partition_data) > 1
    ):
        topics = await work.append_several()
    else:
        with replicas.follower_batch if acks == _ACKS_ALL else _NO_BATCHING:
            topics = work.append_all()
    if work.unread:
        await work.append_inspected(topics)
    uncommitted = work.uncommitted
    if work.unsynced is not None:
        await _make_durable(broker, work.unsynced, uncommitted)
    if acks == 0:
        if work.failure is not None:
            raise ConnectionLostError(f"a produce with acks=0 failed: {work.failure}")
        return None
    response = produce.Response(responses=topics)
    if work.leaders is not None and version >= _NODE_ENDPOINTS_FIRST:
        response.node_endpoints = [
            produce.NodeEndpoint(node_id=one.broker_id, host=one.host, port=one.port, rack=one.rack)
            for one in endpoints_of(broker, context, work.leaders)
        ]
    if uncommitted is None:
        return response
    timeout_s = max(0, request.timeout_ms) / 1000
    uncommitted.begin(response, broker.clock.monotonic() + timeout_s)
    return uncommitted


class _Appends:
    """Appends the batches of one request.

    Attributes:
        unsynced: appends that must be synced before they are acknowledged, or None.
        uncommitted: appends that must be committed before they are acknowledged, or None.
        leaders: brokers that lead partitions for which the request was sent to the wrong broker.
        failure: the last error.
        unread: some batches must be inspected first; their answers are `_UNREAD` until then.
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
        "unread",
        "unsynced",
    )

    def __init__(
        self,
        broker: Broker,
        request: produce.Request,
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
        self.unread = False

    def append_all(self) -> list[produce.TopicResponse]:
        return [
            produce.TopicResponse(
                topic_id=topic.topic_id,
                name=topic.name,
                partition_responses=[self.append(topic, asked) for asked in topic.partition_data],
            )
            for topic in self._request.topic_data
        ]

    async def append_several(self) -> list[produce.TopicResponse]:
        """Append to more than one partition, in turns that stay short."""
        broker, request = self._broker, self._request
        pace = Pace(broker.clock.monotonic)
        wanted = [
            (topic, asked)
            async for topic in pace.each(request.topic_data)
            for asked in topic.partition_data
        ]
        if await pace.repeated((one.name or one.topic_id, asked.index) for one, asked in wanted):
            return await self._refuse_repeated(pace)
        batch = broker.replicas.follower_batch if request.acks == _ACKS_ALL else _NO_BATCHING
        if max(len(wanted), len(request.topic_data)) <= _PARTITIONS_PER_TURN:
            with batch:
                return self.append_all()
        answers: list[produce.PartitionResponse] = []
        for start in range(0, len(wanted), _PARTITIONS_PER_TURN):
            if start:
                await trio.lowlevel.checkpoint()
            with batch:
                answers += starmap(self.append, wanted[start : start + _PARTITIONS_PER_TURN])
        left = iter(answers)
        return await pace.every(
            produce.TopicResponse(
                topic_id=topic.topic_id,
                name=topic.name,
                partition_responses=list(islice(left, len(topic.partition_data))),
            )
            for topic in request.topic_data
        )

    async def _refuse_repeated(self, pace: Pace) -> list[produce.TopicResponse]:
        error = PartitionError(
            ErrorCode.INVALID_REQUEST, "a partition is named more than once in the request"
        )
        return [
            produce.TopicResponse(
                topic_id=topic.topic_id,
                name=topic.name,
                partition_responses=await pace.every(
                    self._refused(topic, asked, error) for asked in topic.partition_data
                ),
            )
            async for topic in pace.each(self._request.topic_data)
        ]

    async def append_inspected(self, topics: list[produce.TopicResponse]) -> None:
        """Append the batches that have to be inspected, one after the other, and answer them."""
        broker, budget = self._broker, Budget()
        for topic, answer in zip(self._request.topic_data, topics, strict=True):
            for position, asked in enumerate(topic.partition_data):
                if answer.partition_responses[position] is not _UNREAD:
                    continue
                try:
                    name = topic.name or broker.index.topic_name("", topic.topic_id, by_id=True)
                    records = await broker.inspector.inspect(
                        asked.records,  # type: ignore[arg-type]  # decoded records are a memoryview
                        broker.partition(name, asked.index).topic,
                        budget,
                        now_ms=self._now_ms,
                        version=self._version,
                    )
                except (PartitionError, LogError) as error:
                    answer.partition_responses[position] = self._refused(topic, asked, error)
                    continue
                asked.records = records
                answer.partition_responses[position] = self.append(topic, asked, Inspection.DONE)

    def append(
        self,
        topic: produce.TopicData,
        asked: produce.PartitionData,
        inspection: Inspection = Inspection.ELSEWHERE,
    ) -> produce.PartitionResponse:
        """Append one partition's batch; the returned answer may change until it is sent."""
        broker, acks, version = self._broker, self._request.acks, self._version
        try:
            name = topic.name
            if version >= _TOPIC_IDS_FIRST:
                name = broker.index.topic_name(name, topic.topic_id, by_id=True)
            partition = broker.partition(name, asked.index)
            if acks not in _ACKS or name in INTERNAL_TOPICS:
                raise _invalid(acks, name)
            if acks == _ACKS_ALL and not partition.is_alone:
                partition.check_in_sync()
            records = asked.records
            if records is None:
                raise PartitionError(ErrorCode.INVALID_RECORD, "null instead of a record batch")
            result = partition.append(
                records,  # type: ignore[arg-type]  # decoded records are a memoryview
                now_ms=self._now_ms,
                version=version,
                inspection=inspection,
            )
        except (PartitionError, LogError) as error:
            return self._refused(topic, asked, error)
        except RecordsUnread:
            self.unread = True
            return _UNREAD
        answer = produce.PartitionResponse(
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
        self,
        topic: produce.TopicData,
        asked: produce.PartitionData,
        error: PartitionError | LogError,
    ) -> produce.PartitionResponse:
        code = error.error_code
        if self._unconfirmed and isinstance(error, InvalidTransactionState):
            code = self._unconfirmed
        self.failure = str(error)
        answer = produce.PartitionResponse(
            index=asked.index,
            error_code=code,
            base_offset=-1,
            log_append_time_ms=-1,
            log_start_offset=-1,
            error_message=self.failure,
        )
        if isinstance(error, LogError) and error.record_errors:
            answer.record_errors = [
                produce.BatchIndexAndErrorMessage(
                    batch_index=one.batch_index, batch_index_error_message=one.message
                )
                for one in error.record_errors
            ]
        if code in LEADER_ELSEWHERE:
            leader = current_leader(self._broker, topic.name, topic.topic_id, asked.index)
            answer.current_leader = produce.LeaderIdAndEpoch(
                leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
            )
            self.leaders = [*(self.leaders or ()), leader.leader_id]
        return answer


async def _wait_thawed(broker: Broker, request: produce.Request) -> None:
    """Wait for the end of hand-overs: this broker goes on leading, or another one does."""
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


def _invalid(acks: int, topic: str) -> PartitionError:
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
    """Sync the appends, while the in-sync replicas fetch them."""
    is_complete = False
    try:
        for partition, result, answer in unsynced:
            try:
                await broker.flusher.make_durable(partition, result.last_offset + 1)
            except LogError as error:
                answer.error_code = error.error_code
                answer.base_offset = -1
                answer.error_message = str(error)
        is_complete = True
    finally:
        if uncommitted is not None and not is_complete:
            uncommitted.give_up()  # the client has disconnected
