"""One connection's exchange: numbers requests, matches responses, finds those that are overdue.

Kafka answers the requests of a connection in their order, so what is unanswered
forms a queue, and a response that does not belong to its head means that the two sides no longer
understand each other: the connection must be closed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from minikafka.protocol.api import ApiKey, response_class
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.exceptions import EncodeError, MalformedMessageError
from minikafka.protocol.frames import decode_response_header, encode_request_after, request_prefix
from minikafka.protocol.messages import api_versions
from minikafka.protocol.schema import Request, Response
from minikafka_client import errors

Answer = Response | errors.KafkaError
OnAnswer = Callable[[Answer], None]

_SHORT = Struct(">h")
_CORRELATION_ID_MAX = 0x7FFFFFFF


class _Kind(NamedTuple):
    prefix: bytes
    response: type[Response]
    version: int
    has_flexible_header: bool


class _Waiting(NamedTuple):
    correlation_id: int
    kind: _Kind
    deadline: float
    on_answer: OnAnswer


class Wire:
    """The state of one connection; every submitted request gets exactly one answer.

    ``on_answer`` is called with the response or with the `KafkaError` that stands for it. It is
    called from `receive` and from `fail`, and must not raise.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._waiting: deque[_Waiting] = deque()
        self._next_correlation_id = 0
        # Bounded: one for each version of an API that is really spoken.
        self._kinds: dict[tuple[int, int], _Kind] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(
        self, request: Request, version: int, *, deadline: float, on_answer: OnAnswer
    ) -> list[Any]:
        """Encode a request and expect its answer; raises as `encode`."""
        correlation_id = self._next_correlation_id
        buffers = self.encode(request, version)
        kind = self._kind(request, version)
        self._waiting.append(_Waiting(correlation_id, kind, deadline, on_answer))
        return buffers

    def encode(self, request: Request, version: int) -> list[Any]:
        """Encode a request (without an answer: Produce with acks=0).

        Raises:
            UnsendableRequestError: a value in it cannot be encoded; nothing was submitted.
        """
        correlation_id = self._next_correlation_id
        prefix = self._kind(request, version).prefix
        try:
            buffers = encode_request_after(prefix, request, version, correlation_id)
        except EncodeError as error:
            raise errors.UnsendableRequestError(f"the request cannot be sent: {error}") from error
        self._next_correlation_id = (correlation_id + 1) & _CORRELATION_ID_MAX
        return buffers

    def _kind(self, request: Request, version: int) -> _Kind:
        key = (request.API_KEY, version)
        kind = self._kinds.get(key)
        if kind is None:
            prefix = request_prefix(type(request), version, self._client_id)
            response = response_class(ApiKey(request.API_KEY))
            # The answer to ApiVersions is readable even by a client that asked in a wrong version.
            is_flexible = version in response.FLEXIBLE and response is not api_versions.Response
            kind = self._kinds[key] = _Kind(prefix, response, version, is_flexible)
        return kind

    def receive(self, frame: memoryview) -> None:
        """Deliver a response frame to its request.

        Raises:
            UnreadableResponseError: it is not the expected response, or not decodable; the
                connection must be closed and `fail` called.
        """
        if not self._waiting:
            raise errors.UnreadableResponseError(
                f"the broker sent {len(frame)} bytes that answer no request; is it a Kafka broker?"
            )
        head = self._waiting[0]
        _prefix, response_type, version, is_flexible = head.kind
        response: Response
        try:
            correlation_id, position = decode_response_header(frame, flexible=is_flexible)
            if correlation_id != head.correlation_id:
                raise errors.UnreadableResponseError(
                    f"the broker answered request {correlation_id}, but {head.correlation_id} is "
                    f"the next one; the connection is out of step"
                )
            if response_type is api_versions.Response and _is_unsupported_version(frame, position):
                response = _refused_api_versions(frame, position)
            else:
                response = response_type.decode(version, frame, position)
        except MalformedMessageError as error:
            raise errors.UnreadableResponseError(
                f"the broker's answer cannot be read: {error}; is it a Kafka broker?"
            ) from error
        self._waiting.popleft()
        head.on_answer(response)

    def fail(self, error: errors.KafkaError) -> None:
        """Answer everything that waits with an error: the connection is closed."""
        while self._waiting:
            self._waiting.popleft().on_answer(error)

    def deadline(self) -> float | None:
        """When the oldest request is overdue; None when nothing waits."""
        return self._waiting[0].deadline if self._waiting else None

    def overdue(self, now: float) -> errors.RequestTimeoutError | None:
        """The reason to close the connection, when its oldest request has waited too long.

        The requests behind it fail too: their answers would come even later.
        """
        if not self._waiting or now < self._waiting[0].deadline:
            return None
        head = self._waiting[0]
        api = ApiKey(head.kind.response.API_KEY)
        return errors.RequestTimeoutError(
            f"no answer to {api.title} (request {head.correlation_id}) "
            f"in time; raise request_timeout_ms if the broker is that slow"
        )


def _refused_api_versions(frame: memoryview, position: int) -> api_versions.Response:
    """Read the answer to a version that the broker lacks: layout 0, with what it has (KIP-511).

    Not every broker sends a correct list; the code alone is reason to retry in version 0.
    """
    try:
        return api_versions.Response.decode(0, frame, position)
    except MalformedMessageError:
        return api_versions.Response(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[])


def _is_unsupported_version(frame: memoryview, position: int) -> bool:
    if len(frame) < position + 2:
        return False
    (code,) = _SHORT.unpack_from(frame, position)
    return bool(code == ErrorCode.UNSUPPORTED_VERSION)
