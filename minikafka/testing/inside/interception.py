"""A listener whose requests are recorded and, when the test wants it, tampered with.

Faults are tried in the order in which they were injected; the first that fits a request and is not
used up applies to it, alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import trio

from minikafka.broker.control.request_context import RequestContext
from minikafka.broker.handlers import API_TABLE
from minikafka.broker.net.connection import Connection, Head
from minikafka.broker.transport.transport import ConnectionLostError, Transport
from minikafka.protocol.api import ApiKey, response_class
from minikafka.protocol.error_responses import error_response
from minikafka.protocol.exceptions import MalformedMessageError
from minikafka.protocol.fields import Struct
from minikafka.protocol.frames import decode_request_header, encode_response
from minikafka.protocol.messages import api_versions, fetch, find_coordinator, produce
from minikafka.protocol.schema import Request

if TYPE_CHECKING:
    from minikafka.broker.broker import Broker

RECORDED_REQUESTS_MAX: Final = 100_000
_RECORDED_TOPICS_MAX: Final = 1_000
_OFFLOADED_SIZE_BYTES_MIN: Final = 128 * 1024
_GROUP_KEY: Final = 0
_NAMES: Final = ("topic", "name", "topic_name")
_WITH_TOPICS: Final = (
    "topics",
    "topic_data",
    "topic_names",
    "topic_partitions",
    "v3_and_below_topics",
    "transactions",
    "markers",
    "groups",
    "dirs",
)


class Seen(NamedTuple):
    """A request, as the test gets it."""

    api: str
    version: int
    client_id: str | None
    topics: tuple[str, ...]
    group: str | None
    transactional_id: str | None
    at_ms: int


@dataclass(slots=True)
class Fault:
    """What is to happen to requests; see `minikafka.testing.faults` for what each part stands for.

    Attributes:
        left: how many requests more; None for all.
        hits: how many it happened to.
    """

    number: int
    api: ApiKey
    error: int | None
    delay_s: float
    disconnect: str | None
    drop: bool
    repeat: bool
    left: int | None
    client_id: str | None
    topic: str | None
    group: str | None
    hits: int = 0

    def fits(self, api_key: int, seen: Seen) -> bool:
        """Whether it happens to a request."""
        return (
            self.left != 0
            and api_key == self.api
            and self.client_id in {None, seen.client_id}
            and (self.topic is None or self.topic in seen.topics)
            and self.group in {None, seen.group}
        )


class Interceptor:
    """Faults and the record of requests, for all connections of a broker."""

    def __init__(self) -> None:
        self.faults: dict[int, Fault] = {}
        self.seen: deque[Seen] = deque(maxlen=RECORDED_REQUESTS_MAX)
        self.versions: dict[int, tuple[int, int]] = {}

    def record(self, broker: Broker, head: Head, client_id: str | None, request: Request) -> Seen:
        """Note a request."""
        topics = set(islice(_topics(request, broker), _RECORDED_TOPICS_MAX))
        if isinstance(request, fetch.Request):
            topics.update(_session_topics(broker, request.session_id))
        seen = Seen(
            ApiKey(head[1]).title,
            head[2],
            client_id,
            tuple(sorted(topics)),
            _group(request),
            getattr(request, "transactional_id", None),
            broker.clock.wall_ms(),
        )
        self.seen.append(seen)
        return seen

    def take(self, api_key: int, seen: Seen) -> Fault | None:
        """The fault for a request, which counts as used once more."""
        for fault in self.faults.values():
            if fault.fits(api_key, seen):
                fault.hits += 1
                if fault.left is not None:
                    fault.left -= 1
                return fault
        return None


def _session_topics(broker: Broker, session_id: int) -> Iterator[str]:
    """The topics of a fetch session, for its requests name only what has changed."""
    session = broker.fetch_sessions.find(session_id)
    for name, topic_id, _ in () if session is None else session.partitions:
        topic = broker.image.topics_by_id.get(topic_id)
        yield name if topic is None else topic.name


def _topics(value: Any, broker: Broker) -> Iterator[str]:
    for field in value.FIELDS:
        if field.name not in _WITH_TOPICS:
            continue
        for one in getattr(value, field.name) or ():
            if isinstance(one, str):
                if field.name == "topic_names":
                    yield one
            elif isinstance(one, Struct):
                yield from _name(one, broker)
                yield from _topics(one, broker)


def _name(one: Any, broker: Broker) -> Iterator[str]:
    name = next((getattr(one, key) for key in _NAMES if getattr(one, key, "")), "")
    if not name:
        topic = broker.image.topics_by_id.get(getattr(one, "topic_id", b""))
        name = "" if topic is None else topic.name
    if name:
        yield name


def _group(request: Any) -> str | None:
    if isinstance(request, find_coordinator.Request):
        keys = [request.key, *request.coordinator_keys]
        return next(filter(None, keys), None) if request.key_type == _GROUP_KEY else None
    for name in ("group_id", "group"):
        if isinstance(found := getattr(request, name, None), str) and found:
            return found
    for name in ("groups", "groups_names"):
        for one in getattr(request, name, None) or ():
            group: str = one if isinstance(one, str) else one.group_id
            return group
    return None


class MutableTransport:
    """A client's connection whose answers can be lost on the way."""

    __slots__ = ("_transport", "is_muted", "peer")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.peer = transport.peer
        self.is_muted = False

    @property
    def moves(self) -> int:
        """As of the connection behind it."""
        return self._transport.moves

    async def receive(self) -> bytes:
        """Wait for bytes."""
        return await self._transport.receive()

    async def receive_into(self, view: memoryview) -> int:
        """Wait for bytes."""
        return await self._transport.receive_into(view)

    def send_now(self, parts: list[Any]) -> list[Any]:
        """Send without waiting, or pretend to."""
        return [] if self.is_muted else self._transport.send_now(parts)

    async def send(self, parts: Sequence[Any]) -> None:
        """Send, or pretend to."""
        if self.is_muted:
            await trio.lowlevel.checkpoint()
        else:
            await self._transport.send(parts)

    def has_peer_left(self) -> bool:
        """As of the connection behind it."""
        return self._transport.has_peer_left()

    def close(self) -> None:
        """Close it."""
        self._transport.close()


class TamperedConnection(Connection):
    """A connection that records requests and carries out faults."""

    __slots__ = ("_interceptor", "_mutable")

    def __init__(
        self, broker: Broker, transport: MutableTransport, interceptor: Interceptor
    ) -> None:
        super().__init__(broker, transport)
        self._steady.stop_learning()
        self._mutable = transport
        self._interceptor = interceptor

    async def _serve_frame(
        self, frame: memoryview, head: Head, chunk: bytes, next_position: int
    ) -> float:
        size, api_key, version, correlation_id = head
        handler = API_TABLE.get(api_key)
        if handler is None or not handler.first_version <= version <= handler.last_version:
            return await super()._serve_frame(frame, head, chunk, next_position)
        first, last = self._interceptor.versions.get(api_key, (0, version))
        if not first <= version <= last:
            raise MalformedMessageError(
                f"{handler.api_key.title} version {version} is not supported in this test; "
                f"versions {first} to {last} are"
            )
        header, position = decode_request_header(
            frame, flexible=version >= handler.first_flexible_version
        )
        decode = partial(handler.request_class.decode, version, frame, position)
        if size > _OFFLOADED_SIZE_BYTES_MIN:  # it may have 100,000 entries
            request = await self._broker.run_in_thread(decode)
        else:
            request = decode()
        seen = self._interceptor.record(self._broker, head, header.client_id, request)
        fault = self._interceptor.take(api_key, seen)
        if fault is not None and await self._suffers(fault, frame, head, request):
            return 0.0
        if api_key == ApiKey.API_VERSIONS and self._interceptor.versions:
            self._say(await self._versions(request, version, head), version, correlation_id)
            return 0.0
        return await super()._serve_frame(frame, head, chunk, next_position)

    async def _suffers(self, fault: Fault, frame: memoryview, head: Head, request: Request) -> bool:
        """Carry out a fault; whether that was all, and the request needs no other answer."""
        _, api_key, version, correlation_id = head
        if fault.delay_s:
            self.is_serving = True
            await trio.sleep(fault.delay_s)
            self.is_serving = False
        if fault.drop:
            return True
        if fault.disconnect == "before":
            await self._leave()
        if fault.error is not None:
            if isinstance(request, produce.Request) and request.acks == 0:
                await self._leave()  # as Kafka does, for there is no answer to put an error into
            answer = error_response(request, response_class(ApiKey(api_key)), version, fault.error)
            self._say(answer, version, correlation_id)
            return True
        if fault.disconnect == "after":
            await self._serve_in_vain(frame, head)
            await self._leave()
        if fault.repeat:
            await self._serve_in_vain(frame, head)
        return False

    def _say(self, answer: Any, version: int, correlation_id: int) -> None:
        parts = encode_response(answer, version, correlation_id)
        if self._later:
            self._later.add(parts)
        else:
            self._answers += parts

    async def _leave(self) -> None:
        """End the connection, after what was answered before."""
        await self._settle()
        raise ConnectionLostError("a fault of the test")

    async def _settle(self) -> None:
        if self._answers:
            await self._flush()
        await self._wait_for_later(0)

    async def _serve_in_vain(self, frame: memoryview, head: Head) -> None:
        """Let a request take effect, and lose the answer."""
        await self._settle()
        self._mutable.is_muted = True
        try:
            await super()._serve_frame(frame, head, b"", 0)
            await self._settle()
        finally:
            self._mutable.is_muted = False

    async def _versions(self, request: Request, version: int, head: Head) -> api_versions.Response:
        """ApiVersions of an older Kafka."""
        context = RequestContext(head[1], version, None, self._mutable.peer)
        serve = API_TABLE[head[1]].serve(self._broker)
        answer = await serve(self._broker, context, request)
        assert isinstance(answer, api_versions.Response)
        limited: list[api_versions.ApiVersion] = []
        for one in answer.api_keys:
            first, last = self._interceptor.versions.get(
                one.api_key, (one.min_version, one.max_version)
            )
            one.min_version = max(one.min_version, first)
            one.max_version = min(one.max_version, last)
            if one.min_version <= one.max_version:
                limited.append(one)
        answer.api_keys = limited
        return answer
