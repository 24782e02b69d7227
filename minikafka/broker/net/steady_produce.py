"""A producer that sends the same Produce request again and again, but for its records.

What a producer's requests for one topic have in common (header, acks, timeout, topic) is remembered
after the second of them. A later request that begins with the very same bytes and names one
partition is not decoded: its records are appended, and its answer is the last one with other
offsets. That is two fifths less work for a small request.

Anything unusual (an error, another shape, a client with quotas, one that may not write, records
that have to be synced first) returns None with nothing changed; then the connection serves the
request in the general way. So the rules for Produce are those of `handlers.produce`, and nothing
here decides what an error is. With acks=all the answer may have to wait for the followers; then it
is promised, as `handlers.acknowledgements` does.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from ...metadata.topics import INTERNAL_TOPICS
from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.frames import encode_request, encode_response
from ...protocol.messages import produce
from ...protocol.schema import Request
from ...security.acl import Operation, ResourceType
from ...storage.errors import LogError
from ...storage.log import AppendResult
from ...storage.validation import RecordsUnread
from ..handlers.acknowledgements import refuse
from ..handlers.later_answer import LaterAnswer
from ..replicas.partition import Partition, PartitionError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_HEAD: Final = struct.Struct(">iIi")  # frame size; API key and version; correlation id
_AFTER_HEAD: Final = _HEAD.size
_SIZED: Final = struct.Struct(">ii")  # partition, size of its records
_FLEXIBLE: Final = struct.Struct(">iB")  # partition, first byte of that size + 1
_CORRELATION: Final = struct.Struct(">i")
_CORRELATION_POSITION: Final = 4
_OFFSETS: Final = struct.Struct(">qqq")  # base offset, append time, log start offset
_MARKS: Final = (0x5A17_0001_C0FF_EE01, 0x5A17_0002_C0FF_EE02, 0x5A17_0003_C0FF_EE03)
_LOG_START_OFFSET_FIRST: Final = 5
_FLEXIBLE_FIRST: Final = 9
_TOPIC_IDS_FIRST: Final = 13
_NO_TAGS: Final = b"\0\0\0"  # of the partition, the topic and the request
_ACKS_ALL: Final = -1
_LEARNED_SIZE_BYTES_MAX: Final = 60_000
_ANSWERS_MAX: Final = 256
_LESSONS_MAX: Final = 100
"""A connection whose requests change their shape all the time is left alone after this many."""


class SteadyProduce:
    """What the last Produce requests of one connection have in common.

    Args:
        size_bytes_max: the largest frame allowed.

    Attributes:
        is_known: there is something to compare requests with.
    """

    __slots__ = (
        "_acks",
        "_answers",
        "_broker",
        "_context",
        "_head",
        "_kind",
        "_last",
        "_lessons",
        "_name",
        "_position",
        "_size_bytes_max",
        "_timeout_s",
        "_topic_id",
        "_version",
        "is_known",
    )

    def __init__(self, broker: Broker, size_bytes_max: int) -> None:
        self._broker = broker
        self.is_known = False
        self._last: tuple[int, int, str, bytes] | None = None
        self._answers: dict[int, tuple[bytes, int]] = {}
        self._lessons = 0
        self._context: RequestContext | None = None
        self._head = b""
        self._kind = self._position = self._version = self._acks = 0
        self._timeout_s = 0.0
        self._name, self._topic_id = "", b""
        self._size_bytes_max = size_bytes_max + 4

    def stop_learning(self) -> None:
        """Have every request decoded, because somebody wants to see it."""
        self._lessons = _LESSONS_MAX

    def learn(self, frame: memoryview, context: RequestContext, request: Request) -> None:
        """Look at a request that was decoded: the second of a kind is worth remembering."""
        assert isinstance(request, produce.Request)
        version = context.api_version
        topics = request.topic_data
        if (
            len(topics) != 1
            or len(topics[0].partition_data) != 1
            or request.transactional_id is not None
            or request.acks not in (1, _ACKS_ALL)
            or version < _LOG_START_OFFSET_FIRST
            or len(frame) > _LEARNED_SIZE_BYTES_MAX
            or self._lessons >= _LESSONS_MAX
        ):
            self._last = None
            return
        (topic,) = topics
        seen = (version, request.acks, topic.name, topic.topic_id)
        if seen != self._last:
            self._last = seen
            return
        self._last = None
        self._lessons += 1
        partition = topic.partition_data[0]
        size_bytes = 0 if partition.records is None else len(partition.records)
        expected = b"".join(encode_request(request, version, 0, context.client_id))
        if not size_bytes or expected[_AFTER_HEAD:] != bytes(
            frame[_AFTER_HEAD - _CORRELATION.size :]
        ):
            return  # a request that we would not write like this: it has tagged fields, say
        if version >= _FLEXIBLE_FIRST:
            length_bytes = -(-(size_bytes + 1).bit_length() // 7)
            end = len(expected) - len(_NO_TAGS)
        else:
            length_bytes, end = 4, len(expected)
        self._position = end - size_bytes - length_bytes - _CORRELATION.size
        self._head = expected[_AFTER_HEAD : self._position]
        self._kind = ApiKey.PRODUCE << 16 | version
        self._version, self._acks = version, request.acks
        self._timeout_s = max(0, request.timeout_ms) / 1000
        self._name, self._topic_id = topic.name, topic.topic_id
        self._context = context
        self._answers = {}
        self.is_known = True

    def serve(self, chunk: bytes) -> bytearray | LaterAnswer | None:
        """The answer to a chunk that is one whole request of the known kind; None if it is not."""
        position = self._position
        if not position + _SIZED.size <= len(chunk) <= self._size_bytes_max:
            return None
        size, kind, correlation_id = _HEAD.unpack_from(chunk)
        if (
            kind != self._kind
            or size + 4 != len(chunk)
            or chunk[_AFTER_HEAD:position] != self._head
        ):
            return None
        version = self._version
        if version < _FLEXIBLE_FIRST:
            index, size_bytes = _SIZED.unpack_from(chunk, position)
            start = position + 8
            end = start + size_bytes
            if end != len(chunk):
                return None
        else:
            index, size_bytes = _FLEXIBLE.unpack_from(chunk, position)
            start = position + 5
            if size_bytes > 127:
                size_bytes += (chunk[start] << 7) - 128
                start += 1
                if size_bytes > 16_383:
                    size_bytes += (chunk[start] << 14) - 16_384
                    start += 1
            end = start + size_bytes - 1
            if end + 3 != len(chunk) or chunk[end:] != _NO_TAGS:
                return None
        if end <= start:
            return None
        return self._append(index, memoryview(chunk)[start:end], correlation_id)

    def _append(
        self, index: int, records: memoryview, correlation_id: int
    ) -> bytearray | LaterAnswer | None:
        broker, version = self._broker, self._version
        replicas = broker.replicas
        if replicas.frozen or broker.client_quotas is not None:
            return None
        try:
            name = self._name
            if version >= _TOPIC_IDS_FIRST:
                name = broker.index.topic_name(name, self._topic_id, by_id=True)
            if name in INTERNAL_TOPICS or not self._is_allowed(name):
                return None
            partition = broker.partition(name, index)
            if partition.topic.is_fsync_acked:
                return None
            if self._acks != _ACKS_ALL or partition.is_alone:
                result = partition.append(records, now_ms=broker.clock.wall_ms(), version=version)
                return self._answer(index, result, correlation_id)
            partition.check_in_sync()
            with replicas.follower_batch:
                result = partition.append(records, now_ms=broker.clock.wall_ms(), version=version)
                answer = self._answer(index, result, correlation_id)
                if partition.log.high_watermark > result.last_offset:
                    return answer
                promised = _Promised(partition, answer, result, self._name, self._topic_id)
                promised.deadline = broker.clock.monotonic() + self._timeout_s
                partition.wait_for_commit(promised, result.last_offset + 1)
                return promised
        except (PartitionError, LogError, RecordsUnread):
            return None  # nothing was appended

    def _answer(self, index: int, result: AppendResult, correlation_id: int) -> bytearray:
        known = self._answers.get(index)
        if known is None:
            known = self._new_answer(index)
        text, position = known
        answer = bytearray(text)
        _CORRELATION.pack_into(answer, _CORRELATION_POSITION, correlation_id)
        _OFFSETS.pack_into(answer, position, result[0], result[2], result[3])
        return answer

    def _is_allowed(self, topic: str) -> bool:
        authorization, context = self._broker.authorization, self._context
        return authorization is None or (
            context is not None
            and authorization.allows(context, Operation.WRITE, ResourceType.TOPIC, topic)
        )

    def _new_answer(self, index: int) -> tuple[bytes, int]:
        """The answer to one partition's requests, and where its offsets are."""
        response = _response(self._name, self._topic_id, index, *_MARKS)
        (text,) = encode_response(response, self._version, 0)
        if len(self._answers) >= _ANSWERS_MAX:
            self._answers = {}
        found = bytes(text), text.index(_OFFSETS.pack(*_MARKS))
        self._answers[index] = found
        return found


class _Promised(LaterAnswer):
    """The answer to a request with acks=all, until the followers have its records."""

    __slots__ = ("_answer", "_name", "_partition", "_result", "_topic_id")

    def __init__(
        self,
        partition: Partition,
        answer: bytearray,
        result: AppendResult,
        name: str,
        topic_id: bytes,
    ) -> None:
        super().__init__()
        self._partition = partition
        self._answer = answer
        self._result = result
        self._name, self._topic_id = name, topic_id

    def settle(self, error_code: ErrorCode) -> None:
        """See `OffsetWaiter`."""
        if error_code is not ErrorCode.NONE:
            base_offset, _, append_time, log_start_offset, _ = self._result
            offsets = base_offset, append_time, log_start_offset
            self.response = _response(self._name, self._topic_id, self._partition.index, *offsets)
            refuse(self.response.responses[0].partition_responses[0], error_code)
        self.ready()

    def encode(self, version: int, correlation_id: int) -> list[Any]:
        """The answer that was prepared, or the error."""
        if self.response is None:
            return [self._answer]
        return super().encode(version, correlation_id)

    def give_up(self) -> None:
        """Answer that it took too long."""
        self._partition.commits.forget(self)
        self.settle(ErrorCode.REQUEST_TIMED_OUT)


def _response(
    name: str,
    topic_id: bytes,
    index: int,
    base_offset: int,
    append_time_ms: int,
    log_start_offset: int,
) -> produce.Response:
    """The answer to a request for one partition of a topic."""
    one = produce.PartitionResponse(
        index=index,
        error_code=0,
        base_offset=base_offset,
        log_append_time_ms=append_time_ms,
        log_start_offset=log_start_offset,
    )
    topic = produce.TopicResponse(topic_id=topic_id, name=name, partition_responses=[one])
    return produce.Response(responses=[topic])
