"""A producer that sends the same Produce request again and again, but for its records.

What a producer's requests for one topic have in common (header, acks, timeout, topic) is remembered
after the second of them. A later request that begins with the very same bytes and names one
partition is not decoded: its records are appended, and its answer is the last one with other
offsets. That is two fifths less work for a small request.

Anything unusual (an error, another shape, acks=all with followers, a client with quotas, one that
may not write, an answer that has to wait) returns None with nothing changed; then the connection
serves the request in the general way. So the rules for Produce are those of `handlers.produce`, and
nothing here decides what an error is.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from ...metadata.topics import INTERNAL_TOPICS
from ...protocol.api import ApiKey
from ...protocol.frames import encode_request, encode_response
from ...protocol.messages import produce
from ...protocol.schema import Request
from ...security.acl import Operation, ResourceType
from ...storage.errors import LogError
from ...storage.validation import RecordsUnread
from ..replicas.partition import PartitionError

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
        self._name, self._topic_id = topic.name, topic.topic_id
        self._context = context
        self._answers = {}
        self.is_known = True

    def serve(self, chunk: bytes) -> bytearray | None:
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

    def _append(self, index: int, records: memoryview, correlation_id: int) -> bytearray | None:
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
            if partition.topic.is_fsync_acked or (
                self._acks == _ACKS_ALL and not partition.is_alone
            ):
                return None
            result = partition.append(records, now_ms=broker.clock.wall_ms(), version=version)
        except (PartitionError, LogError, RecordsUnread):
            return None  # nothing was appended
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
        base_offset, append_time, log_start_offset = _MARKS
        one = produce.PartitionResponse(
            index=index,
            error_code=0,
            base_offset=base_offset,
            log_append_time_ms=append_time,
            log_start_offset=log_start_offset,
        )
        topic = produce.TopicResponse(
            topic_id=self._topic_id, name=self._name, partition_responses=[one]
        )
        (text,) = encode_response(produce.Response(responses=[topic]), self._version, 0)
        if len(self._answers) >= _ANSWERS_MAX:
            self._answers = {}
        found = bytes(text), text.index(_OFFSETS.pack(*_MARKS))
        self._answers[index] = found
        return found
