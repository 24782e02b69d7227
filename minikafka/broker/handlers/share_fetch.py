"""ShareFetch 1-2: acquire records, and acknowledge earlier ones (KIP-932).

A share session (epochs 0, 1, 2, ... and -1 at its end) knows which partitions the member reads. It
also ends with the connection that opened it, which releases what the member has.
Acknowledgements come first, so that what is released can be acquired by the same request. A fetch
that finds fewer than min_bytes waits for appends and for records that others release, without
polling, until max_wait_ms. Records travel as slices of the log's files, as in Fetch, and
``acquired_records`` says which of them belong to the member; offsets in between belong to others or
have no record.

``max_records`` is exceeded by at most one record batch, or not at all with ShareAcquireMode 1
(KIP-1206). The group's ``share.isolation.level`` bounds reads by the last stable offset. With
IsRenewAck (KIP-1222) nothing is fetched. Unlike in Kafka a member above its quota gets what was
acquired for it, and then has to wait: otherwise nobody could have it until its lock runs out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import trio

from ...protocol.errors import ErrorCode
from ...protocol.messages import share_fetch
from ...storage.errors import LogError
from ..replicas.partition import Partition, PartitionError
from ..shares.partitions import RunningShare, Taken, Wanted
from ..shares.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    SessionKey,
    ShareSession,
    ShareSessionError,
)
from ..transport.transport import FilePayload
from .share_requests import (
    Asked,
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

_RECORD_LIMIT_MODE = 1
_FILES_PER_ANSWER_MAX = 64
_Place = tuple[bytes, int]


class _Waiter:
    """Wakes a fetch when a partition grows, or a share-partition has something to acquire."""

    __slots__ = ("event",)

    def __init__(self) -> None:
        self.event = trio.Event()

    def notify(self, partition: Partition) -> None:
        del partition
        self.event.set()

    def wake(self) -> None:
        self.event.set()


class _Fetch:
    """One request's reading: what it has found so far."""

    def __init__(
        self,
        broker: Broker,
        session: ShareSession,
        request: share_fetch.Request,
        may_read: Callable[[bytes], bool] | None,
    ) -> None:
        self._broker = broker
        self._session = session
        self._request = request
        self._may_read = may_read
        self.errors: dict[_Place, PartitionError | LogError] = {}
        self.taken: dict[_Place, Taken] = {}

    async def run(self) -> None:
        """Acquire records, waiting for them if necessary."""
        broker, request = self._broker, self._request
        deadline = broker.clock.monotonic() + request.max_wait_ms / 1000
        waiter = _Waiter()
        while True:
            shares = await self._find()
            self._watch(shares, waiter)
            try:
                is_late = broker.clock.monotonic() >= deadline or broker.node.is_stopping
                if not self._session.is_open:
                    return
                self._acquire(shares, is_late=is_late)
                if self.taken or self.errors or is_late:
                    return
                with trio.move_on_at(deadline):
                    await waiter.event.wait()
                waiter.event = trio.Event()
            finally:
                for share in shares.values():
                    share.waiters.pop(waiter, None)
                    share.partition.waiters.pop(waiter, None)

    async def _find(self) -> dict[_Place, RunningShare]:
        shares: dict[_Place, RunningShare] = {}
        for topic_id, index in list(self._session.partitions):
            if self._may_read is not None and not self._may_read(topic_id):
                self.errors[topic_id, index] = PartitionError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                continue
            try:
                group_id = self._session.key.group_id
                shares[topic_id, index] = await self._broker.shares.get(group_id, topic_id, index)
            except PartitionError as error:
                self.errors[topic_id, index] = error
        return shares

    @staticmethod
    def _watch(shares: Mapping[_Place, RunningShare], waiter: _Waiter) -> None:
        for share in shares.values():
            share.waiters[waiter] = None
            share.partition.waiters[waiter] = None

    def _acquire(self, shares: Mapping[_Place, RunningShare], *, is_late: bool) -> None:
        request, service = self._request, self._broker.shares
        if not is_late and not self.errors and request.min_bytes > 1:
            found = sum(self._available(share) for share in shares.values())
            if found < request.min_bytes:
                return
        bytes_left = min(request.max_bytes, self._broker.config.fetch_max_bytes)
        records_left = request.max_records
        for place, share in shares.items():
            if bytes_left <= 0 or records_left <= 0 or len(self.taken) >= _FILES_PER_ANSWER_MAX:
                return
            if not share.is_loaded:
                self.errors[place] = PartitionError(share.error_code)
                continue
            try:
                wanted = self._wanted(records_left, bytes_left)
                taken = service.acquire(share, self._session.key.member_id, wanted)
            except LogError as error:
                self.errors[place] = error
                continue
            if taken is not None:
                self.taken[place] = taken
                self._session.move_to_end(place)
                bytes_left -= taken.size_bytes
                records_left -= taken.record_count

    def _available(self, share: RunningShare) -> int:
        try:
            wanted = self._wanted(self._request.max_records, self._request.max_bytes)
            return self._broker.shares.available_bytes(share, wanted) if share.is_loaded else 0
        except LogError:
            return self._request.min_bytes  # to be reported

    def _wanted(self, records: int, size_bytes: int) -> Wanted:
        request = self._request
        is_exact = request.share_acquire_mode == _RECORD_LIMIT_MODE
        return Wanted(records, max(request.batch_size, 1), is_exact, size_bytes)


async def handle(
    broker: Broker, context: RequestContext, request: share_fetch.Request
) -> share_fetch.Response:
    may_read = right_to_read(broker, context)
    asked = await asked_partitions(broker, request.topics)
    problem = _problem(request, asked)
    if problem is not None:
        return _refused(ErrorCode.INVALID_REQUEST, problem)
    key = SessionKey(request.group_id or "", request.member_id or "")
    try:
        session, ended = _session(broker, context, key, request, asked)
    except ShareSessionError as error:
        return _refused(error.error_code, str(error))
    try:
        outcomes = await acknowledge(broker, key, asked, may_read)
    finally:
        if ended is not None:
            broker.shares.release(ended)
    if session is None:
        return _answer(broker, context, key, asked, outcomes, None)
    fetch = _Fetch(broker, session, request, may_read)
    if not request.is_renew_ack and request.max_records > 0:
        await fetch.run()
    if context.charge is not None:
        context.charge.sent(sum(one.records.size_bytes for one in fetch.taken.values()))
    return _answer(broker, context, key, asked, outcomes, fetch)


def _problem(request: share_fetch.Request, asked: list[Asked]) -> str | None:
    problem = problem_of(request.group_id, request.member_id, asked)
    if problem is not None:
        return problem
    has_words = any(one.batches for one in asked)
    if request.share_session_epoch == INITIAL_EPOCH and has_words:
        return "The first request of a share session cannot acknowledge anything."
    if renews(asked) and not request.is_renew_ack:
        return "IsRenewAck must be set when a lock is renewed."
    if request.is_renew_ack and (
        request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
    ):
        return "A request that renews locks cannot fetch."
    if request.share_acquire_mode not in (0, _RECORD_LIMIT_MODE):
        return f"There is no ShareAcquireMode {request.share_acquire_mode}."
    return None


def _session(
    broker: Broker,
    context: RequestContext,
    key: SessionKey,
    request: share_fetch.Request,
    asked: list[Asked],
) -> tuple[ShareSession | None, ShareSession | None]:
    """The session to fetch with, and one that has ended."""
    sessions, now = broker.shares.sessions, broker.clock.monotonic()
    epoch = request.share_session_epoch
    if epoch == FINAL_EPOCH:
        return None, sessions.close(key)
    ended = None
    if epoch == INITIAL_EPOCH:
        session, ended = sessions.open(key, now)
        if context.connection is not None:
            context.connection.endings[key] = partial(broker.shares.connection_lost, session)
    else:
        session = sessions.use(key, epoch, now)
    sessions.add(session, [one.place for one in asked])
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            session.partitions.pop((topic.topic_id, index), None)
    return session, ended


def _answer(
    broker: Broker,
    context: RequestContext,
    key: SessionKey,
    asked: list[Asked],
    outcomes: Mapping[_Place, ErrorCode],
    fetch: _Fetch | None,
) -> share_fetch.Response:
    """What was found or went wrong; and everything that a first request asked for."""
    errors = {} if fetch is None else fetch.errors
    taken = {} if fetch is None else fetch.taken
    topics: dict[bytes, share_fetch.TopicResponse] = {}
    leaders: dict[int, None] = {}
    for place in {**dict.fromkeys(one.place for one in asked), **errors, **taken}:
        topic_id, index = place
        found, error = taken.get(place), errors.get(place)
        code = ErrorCode.NONE if error is None else ErrorCode(error.error_code)
        acknowledged = outcomes.get(place, ErrorCode.NONE)
        is_elsewhere = acknowledged is ErrorCode.NOT_LEADER_OR_FOLLOWER
        hint = leader_hint(broker, place, acknowledged if is_elsewhere else code)
        leaders[hint.leader_id] = None
        answer = share_fetch.PartitionData(
            partition_index=index,
            error_code=code,
            error_message=None if error is None else str(error),
            acknowledge_error_code=acknowledged,
            current_leader=share_fetch.LeaderIdAndEpoch(
                leader_id=hint.leader_id, leader_epoch=hint.leader_epoch
            ),
        )
        if found is not None:
            answer.records = FilePayload(found.records)
            answer.acquired_records = [
                share_fetch.AcquiredRecords(
                    first_offset=one.first_offset,
                    last_offset=one.last_offset,
                    delivery_count=one.delivery_count,
                )
                for one in found.acquired
            ]
        topic = topics.setdefault(
            topic_id, share_fetch.TopicResponse(topic_id=topic_id, partitions=[])
        )
        topic.partitions.append(answer)
    return share_fetch.Response(
        acquisition_lock_timeout_ms=broker.shares.settings_of(key.group_id).limits.lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=endpoints(broker, context, share_fetch.NodeEndpoint, leaders),
    )


def _refused(code: ErrorCode, message: str) -> share_fetch.Response:
    return share_fetch.Response(error_code=code, error_message=message, responses=[])
