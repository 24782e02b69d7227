"""One client connection: frames in, answers out, in the order of the requests.

One trio task serves a connection. It takes what the socket has, serves every whole frame in it, and
sends answers that are ready at the same time together. A request that waits (a long-poll Fetch, a
JoinGroup) blocks the ones behind it, as in Kafka, which mutes the connection. A Produce with
acks=all does not: later requests are served, and only the answers keep their order (`AnswerQueue`),
so that one producer's pipelined requests are replicated together.

A malformed frame ends the connection, because nothing after it can be trusted.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import trio

from ...protocol.api import ApiKey, response_class
from ...protocol.errors import ErrorCode
from ...protocol.exceptions import MalformedMessageError
from ...protocol.frames import (
    SIZE,
    decode_request_header,
    decode_response_header,
    encode_response,
    peek_api,
)
from ...protocol.messages import api_versions
from ...protocol.schema import Request, Response
from ...security.principal import Principal
from ...storage.errors import StorageError
from ..control.request_context import ClientConnection, RequestContext
from ..handlers import API_TABLE, Handler
from ..handlers.later_answer import LaterAnswer
from ..handlers.throttle_time import set_throttle, throttle_of
from ..quorum.change_error import FORWARDING_FAILURE, ChangeError
from ..security.client_quotas import RequestCharge
from ..system.request_memory import Reservation
from ..transport.frame_buffer import larger_buffer, larger_size
from ..transport.transport import ConnectionLostError, Transport
from .answers import LATER_ANSWERS_MAX, AnswerQueue
from .large_answers import encode_large, free
from .steady_produce import SteadyProduce

if TYPE_CHECKING:
    from ..broker import Broker
    from ..security.authentication import Authentication

logger = logging.getLogger(__name__)

_HEAD = struct.Struct(">ihhi")  # frame size, API key, version, correlation id
_HEAD_SIZE_BYTES = _HEAD.size
_FRAME_SIZE_BYTES_MIN = 8  # the head without the size itself
_ANSWERS_SIZE_BYTES_MAX = 65_536
_OFFLOADED_SIZE_BYTES_MIN = 128 * 1024
_OFFLOADED_PRODUCE_SIZE_BYTES_MIN = 1_100_000
"""Larger requests are decoded, and their answers encoded, in worker threads: they may have 100,000
entries. Produce is mostly records, of which nothing is decoded, and rarely larger than 1 MiB."""
_PRODUCE_ITEMS_MAX = 5000
"""With more topics and partitions a request to produce goes there, too."""
_OFFLOADED_ENTRIES_MIN = 10_000
"""Larger answers are encoded in worker threads, too, where a short request may have them."""
_PRODUCE = int(ApiKey.PRODUCE)
_TURN_SECONDS = 0.005
"""How long a connection may serve received frames before other tasks run."""


_TLS_BEGINNINGS = range(0x160300, 0x160305)
"""The first three bytes of a TLS handshake in any version."""


def _log_stranger(peer: str, problem: str) -> None:
    logger.warning("closing connection from %s: %s", peer, problem)


Head = tuple[int, int, int, int]
"""Frame size, API key, version, correlation id: the first 12 bytes of every frame."""


class NotKafkaError(MalformedMessageError):
    """The client speaks another protocol."""


def _refuse_api(api_key: int) -> NoReturn:
    raise MalformedMessageError(f"API key {api_key} is not supported")


class Connection:
    """Serves one client until it disconnects or violates the protocol.

    Attributes:
        last_active: when bytes were last received or sent, in monotonic seconds.
        frame_started: when an incomplete frame began, in monotonic seconds, or None.
        log_stranger: reports clients that speak another protocol; there may be many.
        is_serving: a request is being handled.
    """

    __slots__ = (
        "_answers",
        "_authentication",
        "_broker",
        "_is_last_answer",
        "_is_sending",
        "_later",
        "_moves_seen",
        "_receive_scope",
        "_room",
        "_scope",
        "_steady",
        "_transport",
        "client",
        "frame_started",
        "is_serving",
        "last_active",
        "log_stranger",
    )

    def __init__(self, broker: Broker, transport: Transport) -> None:
        self._broker = broker
        self._transport = transport
        self.client = ClientConnection()
        self.log_stranger: Callable[[str, str], None] = _log_stranger
        self._answers: list[Any] = []
        self._authentication: Authentication | None = None
        self.last_active = broker.clock.monotonic()
        self.frame_started: float | None = None
        self.is_serving = False
        self._is_last_answer = False
        self._is_sending = False
        self._moves_seen = 0
        self._scope = trio.CancelScope()
        self._later = AnswerQueue(transport, self._wake, self._sent_later)
        self._receive_scope: trio.CancelScope | None = None
        self._room: trio.Event | None = None
        self._steady = SteadyProduce(broker, broker.config.socket_request_max_bytes)

    async def run(self) -> None:
        """Serve until the connection ends; never raises because of a client."""
        try:
            with self._scope:
                await self._serve_all()
        except ConnectionLostError:
            pass
        except NotKafkaError as error:
            self.log_stranger(self._transport.peer, str(error))
        except MalformedMessageError as error:
            logger.warning("closing connection from %s: %s", self._transport.peer, error)
        except StorageError as error:
            logger.error("closing connection from %s: %s", self._transport.peer, error)
        except Exception:
            logger.exception("closing connection from %s after a bug", self._transport.peer)
        finally:
            self._later.forget()
            self._transport.close()
        self.client.ended()  # not when this node ends

    async def _serve_all(self) -> None:
        transport, steady = self._transport, self._steady
        rest = await self._log_in()
        while True:
            if self._later:
                chunk = await self._receive_and_answer()
            else:
                chunk = await transport.receive()
            if not chunk:
                return
            self.last_active = self._broker.clock.monotonic()
            if rest:
                chunk = rest + chunk
            elif steady.is_known and len(self._later) < LATER_ANSWERS_MAX:
                # None, and served in the general way, if the session is over (KIP-368).
                authentication = self._authentication
                is_admitted = authentication is None or authentication.admits(_PRODUCE)
                same = steady.serve(chunk) if is_admitted else None
                if same is not None:
                    if isinstance(same, LaterAnswer):
                        self._later.promise(same, *_HEAD.unpack_from(chunk)[2:])
                    elif self._later:
                        self._later.add([same])
                    elif left := transport.send_now([same]):
                        self._answers = left
                        await self._flush()
                        if self._is_last_answer:
                            return
                    continue
            rest = await self._serve_chunk(chunk)
            if self._answers:
                await self._flush()
            if self._is_last_answer:
                await self._wait_for_later(0)
                return

    # --- authentication --------------------------------------------------------------------------

    async def _log_in(self) -> bytes:
        """On a SASL listener, wait until the client has logged in, and serve what came with it."""
        broker, listener = self._broker, self.client.listener
        if not listener.protocol.is_sasl:
            return b""
        from ..security.authentication import Authentication

        self._authentication = Authentication(
            broker.sasl.of_listener(listener),
            self._logged_in,
            broker.clock,
            broker.run_in_thread,
            self._answer_versions,
        )
        received = await self._authentication.run(self._transport)
        self.last_active = broker.clock.monotonic()
        rest = await self._serve_chunk(received)
        if self._answers:
            await self._flush()
        return rest

    def _logged_in(self, principal: Principal) -> None:
        self.client.principal = principal

    async def _answer_versions(self, frame: memoryview) -> tuple[list[Any], bool]:
        """Answer ApiVersions of a client that has not logged in yet."""
        api_key, version, correlation_id = peek_api(frame)
        handler = API_TABLE[api_key]
        if not handler.first_version <= version <= handler.last_version:
            return self._unsupported_version(correlation_id), False
        header, position = decode_request_header(
            frame, flexible=version >= handler.first_flexible_version
        )
        request = handler.request_class.decode(version, frame, position)
        context = RequestContext(
            api_key, version, header.client_id, self._transport.peer, self.client
        )
        response = await handler.handle(self._broker, context, request)
        assert isinstance(response, api_versions.Response)
        understood = response.error_code == ErrorCode.NONE
        return encode_response(response, version, correlation_id), understood

    async def _log_in_again(self, authentication: Authentication, frame: memoryview) -> None:
        """Serve what an authenticated client may not send, or what renews its session (KIP-368)."""
        from ..security.authentication import AuthenticationFailedError

        try:
            self._answer(await authentication.serve(frame))
        except AuthenticationFailedError as failure:
            if self._answers:
                await self._flush()
            await self._wait_for_later(0)
            await authentication.refuse(self._transport, failure)

    def _answer(self, parts: list[Any]) -> None:
        """Send an answer in its turn."""
        if self._later:
            self._later.add(parts)
        else:
            self._answers += parts

    # --- later answers ---------------------------------------------------------------------------

    async def _receive_and_answer(self) -> bytes:
        """Wait for bytes; meanwhile send unsent answers, and give up those that are late."""
        while self._later:
            if self._is_last_answer:
                await self._wait_for_later(0)
                return b""
            with trio.CancelScope(deadline=self._later.deadline) as self._receive_scope:
                if not self._later.unsent:
                    return await self._transport.receive()
            self._receive_scope = None
            await self._send_unsent()
            self._later.give_up(self._broker.clock.monotonic())
        return await self._transport.receive()

    async def _send_unsent(self) -> None:
        later = self._later
        while later.unsent:
            later.hold()
            unsent, later.unsent = later.unsent, []
            self._is_sending = True
            await self._transport.send(unsent)
            self._is_sending = False
            later.release()

    async def _wait_for_later(self, count_max: int) -> None:
        while len(self._later) > count_max:
            self._room = trio.Event()
            if not self._later.unsent:
                with trio.move_on_at(self._later.deadline):
                    await self._room.wait()
            self._room = None
            await self._send_unsent()
            self._later.give_up(self._broker.clock.monotonic())

    def _wake(self) -> None:
        """Wake the task: something is left for it to send."""
        if self._receive_scope is not None:
            self._receive_scope.cancel()
        if self._room is not None:
            self._room.set()

    def _sent_later(self) -> None:
        self.last_active = self._broker.clock.monotonic()
        if self._room is not None:
            self._room.set()

    async def _serve_chunk(self, chunk: bytes) -> bytes:
        """Serve the frames of a chunk; returns the rest if it is too short for a frame's head."""
        view = memoryview(chunk)
        position, end = 0, len(chunk)
        turn_ends = self.last_active + _TURN_SECONDS
        while end - position >= _HEAD_SIZE_BYTES:
            if position and self._broker.clock.monotonic() > turn_ends:
                # A chunk may hold thousands of requests: let other clients run.
                await trio.lowlevel.checkpoint()
                turn_ends = self._broker.clock.monotonic() + _TURN_SECONDS
            head = _HEAD.unpack_from(chunk, position)
            size = head[0]
            if not _FRAME_SIZE_BYTES_MIN <= size <= self._size_max_of(head[1]):
                self._refuse_size(size, head[1])
            start = position + 4
            position = start + size
            if position <= end:
                wait_seconds = await self._serve_frame(view[start:position], head, chunk, position)
            else:
                wait_seconds = await self._serve_large_frame(view[start:end], head)
                position = end
            if wait_seconds:
                await self._mute(wait_seconds)
        if position < end:
            if position or self.frame_started is None:  # a new incomplete frame
                self.frame_started = self.last_active
            if end - position >= SIZE.size:
                # The head is incomplete, but the size alone may show that this is no Kafka client.
                (size,) = SIZE.unpack_from(chunk, position)
                if not _FRAME_SIZE_BYTES_MIN <= size <= self._size_max_of(ApiKey.PRODUCE):
                    self._refuse_size(size, ApiKey.PRODUCE)
        else:
            self.frame_started = None
        return chunk[position:]

    def _size_max_of(self, api_key: int) -> int:
        config = self._broker.config
        largest = min(config.socket_request_max_bytes, self.client.frame_size_bytes_max)
        if api_key == ApiKey.PRODUCE:
            return largest
        return min(config.minikafka_request_control_max_bytes, largest)

    def _refuse_size(self, size: int, api_key: int) -> NoReturn:
        if size >> 8 in _TLS_BEGINNINGS:
            raise NotKafkaError(
                f"it speaks TLS, but listener {self.client.listener.name} is "
                f"{self.client.listener.protocol.value}; connect it to an SSL listener"
            )
        kind = "socket.request" if api_key == ApiKey.PRODUCE else "minikafka.request.control"
        raise MalformedMessageError(
            f"a frame (API key {api_key}) has {size} bytes; {_FRAME_SIZE_BYTES_MIN} to "
            f"{self._size_max_of(api_key)} are allowed ({kind}.max.bytes)"
        )

    async def _serve_large_frame(self, beginning: memoryview, head: Head) -> float:
        """Receive the rest of a frame that is larger than a chunk, then serve it."""
        size = head[0]
        self.frame_started = self.last_active
        if self._answers:
            await self._flush()
        memory, reservation = self._broker.request_memory, Reservation()
        try:
            filled = len(beginning)
            buffer = larger_buffer(beginning, size)
            if not memory.take(reservation, len(buffer)):
                await self._wait_for_memory(reservation, len(buffer))
            while filled < size:
                if filled == len(buffer):
                    room = larger_size(filled, size) - filled
                    if not memory.take(reservation, room):
                        await self._wait_for_memory(reservation, room)
                    buffer = larger_buffer(buffer, size)
                with memoryview(buffer) as view:
                    count = await self._transport.receive_into(view[filled:])
                if not count:
                    raise ConnectionLostError("the connection ended inside a frame")
                filled += count
            self.last_active = self._broker.clock.monotonic()
            self.frame_started = None
            if head[1] != ApiKey.PRODUCE:
                memory.give_back(reservation)  # a Fetch may wait for minutes
            return await self._serve_frame(memoryview(buffer), head, b"", 0)
        finally:
            memory.give_back(reservation)

    async def _wait_for_memory(self, reservation: Reservation, size_bytes: int) -> None:
        """Read no more until there is room for it; the client's time for the frame stands still."""
        self.frame_started, self.is_serving = None, True
        await self._broker.request_memory.wait(reservation, size_bytes)
        self.is_serving = False
        self.frame_started = self._broker.clock.monotonic()

    async def _serve_frame(
        self, frame: memoryview, head: Head, chunk: bytes, next_position: int
    ) -> float:
        """Serve a frame; returns for how many seconds its client must wait."""
        size, api_key, version, correlation_id = head
        authentication = self._authentication
        if authentication is not None and not authentication.admits(api_key):
            await self._log_in_again(authentication, frame)
            return 0.0
        handler = API_TABLE.get(api_key) or _refuse_api(api_key)
        if not handler.first_version <= version <= handler.last_version:
            self._refuse_version(handler, version, correlation_id)
            return 0.0
        header, position = decode_request_header(
            frame, flexible=version >= handler.first_flexible_version
        )
        is_offloaded = size > _OFFLOADED_SIZE_BYTES_MIN
        if is_offloaded:
            request, is_offloaded = await self._decode_large(handler, version, frame, position)
        else:
            request = handler.request_class.decode(version, frame, position)
        context = self._context_of(frame, head, header.client_id, request)
        charge = context.charge
        if len(self._later) >= LATER_ANSWERS_MAX:
            await self._wait_for_later(LATER_ANSWERS_MAX // 2)
        self.is_serving = True
        answer: list[Any] | None
        if handler.is_forwarded and not self._broker.controller.is_active:
            answer = await self._forward(frame, handler, context, request)
        else:
            work = handler.serve(self._broker)(self._broker, context, request)
            if charge is None:
                response = await work
            else:
                response = await charge.timed(work)
                self._count(charge, api_key, response)
            if response is None:
                answer = None
            elif isinstance(response, LaterAnswer):
                answer = await self._promise(response, version, correlation_id)
            elif is_offloaded or (
                handler.counts_entries and handler.entries_of(response) > _OFFLOADED_ENTRIES_MIN
            ):
                answer = await self._broker.run_in_thread(
                    partial(encode_large, response, version, correlation_id)
                )
                await self._broker.run_in_thread(partial(free, request, response))
            else:
                answer = encode_response(response, version, correlation_id)
        self.is_serving = False
        if answer is not None and self._later:
            self._later.add(answer)
        elif answer is not None:
            if next_position < len(chunk) and self._may_hold_back(chunk, next_position):
                self._answers += answer
            elif self._answers:
                self._answers += answer
                await self._flush()
            else:
                self._is_sending = True
                await self._transport.send(answer)
                self._is_sending = False
        return 0.0 if charge is None else charge.wait_seconds

    async def _decode_large(
        self, handler: Handler, version: int, frame: memoryview, position: int
    ) -> tuple[Request, bool]:
        """Decode; returns also whether there are so many entries that threads deal with them."""
        decode = handler.request_class.decode
        if handler.api_key == _PRODUCE and len(frame) <= _OFFLOADED_PRODUCE_SIZE_BYTES_MIN:
            with suppress(MalformedMessageError):
                return decode(version, frame, position, _PRODUCE_ITEMS_MAX), False
        return await self._broker.run_in_thread(partial(decode, version, frame, position)), True

    def _context_of(
        self, frame: memoryview, head: Head, client_id: str | None, request: Request
    ) -> RequestContext:
        size_bytes, api_key, version, _ = head
        principal, charge = self.client.principal, None
        quotas = self._broker.client_quotas
        if quotas is not None:
            charge = quotas.charge(principal.name, client_id, size_bytes)
        peer = self._transport.peer
        context = RequestContext(api_key, version, client_id, peer, self.client, principal, charge)
        if api_key == _PRODUCE:
            self._steady.learn(frame, context, request)
        return context

    @staticmethod
    def _count(
        charge: RequestCharge, api_key: int, response: Response | LaterAnswer | None
    ) -> None:
        """Count what a request has cost, and let its answer say how long the client must wait."""
        throttle_ms = charge.finish(api_key, is_answered=response is not None)
        answer = response.response if isinstance(response, LaterAnswer) else response
        if answer is not None:
            set_throttle(answer, throttle_ms)

    async def _mute(self, seconds: float) -> None:
        """Read nothing for a while, because the client is above its quota (KIP-219).

        What it has asked so far is still answered.
        """
        if self._answers:
            await self._flush()
        monotonic = self._broker.clock.monotonic
        muted_until = monotonic() + seconds
        self.frame_started, self.is_serving = None, True
        while not self._is_last_answer and monotonic() < muted_until:
            self._room = trio.Event()
            if not self._later.unsent:
                with trio.move_on_at(min(muted_until, self._later.deadline)):
                    await self._room.wait()
            self._room = None
            await self._send_unsent()
            self._later.give_up(monotonic())
        self.is_serving = False
        if self._is_last_answer:
            await self._wait_for_later(0)
            raise ConnectionLostError("the broker stops while the client has to wait")
        self.last_active = monotonic()

    async def _promise(
        self, later: LaterAnswer, version: int, correlation_id: int
    ) -> list[Any] | None:
        """Return an answer if it is ready; otherwise it will be sent in its turn."""
        if later.is_ready:
            return later.encode(version, correlation_id)
        if self._answers:
            await self._flush()  # they come before it
        self._later.promise(later, version, correlation_id)
        return None

    async def _forward(
        self, frame: memoryview, handler: Handler, context: RequestContext, request: Any
    ) -> list[Any]:
        """Forward a request to the active controller; if that fails, the handler answers why."""
        failure: ChangeError | None = None
        try:
            answer = await self._broker.forwarder.frame(
                frame, self._transport.peer, context.principal
            )
            if answer is not None and context.charge is None:
                return [answer]
            if answer is not None:
                return self._count_forwarded(context, answer)
        except ChangeError as error:
            logger.info("cannot forward a request of %s: %s", self._transport.peer, error)
            failure = error
        token = FORWARDING_FAILURE.set(failure)
        try:
            response = await handler.serve(self._broker)(self._broker, context, request)
        finally:
            FORWARDING_FAILURE.reset(token)
        assert isinstance(response, Response)
        if context.charge is not None:
            self._count(context.charge, context.api_key, response)
        _, _, correlation_id = peek_api(frame)
        return encode_response(response, context.api_version, correlation_id)

    def _count_forwarded(self, context: RequestContext, answer: bytes) -> list[Any]:
        """The client waits for as long as this node or the controller says."""
        charge, version = context.charge, context.api_version
        assert charge is not None
        kind, view = response_class(ApiKey(context.api_key)), memoryview(answer)[4:]
        correlation_id, position = decode_response_header(view, flexible=version in kind.FLEXIBLE)
        response = kind.decode(version, view, position)
        charge.wait_at_least(throttle_of(response))
        self._count(charge, context.api_key, response)
        return encode_response(response, version, correlation_id)

    def _refuse_version(self, handler: Handler, version: int, correlation_id: int) -> None:
        if handler.api_key is not ApiKey.API_VERSIONS:
            raise MalformedMessageError(
                f"{handler.api_key.title} version {version} is not supported; "
                f"versions {handler.first_version} to {handler.last_version} are"
            )
        self._answer(self._unsupported_version(correlation_id))

    def _unsupported_version(self, correlation_id: int) -> list[Any]:
        # KIP-511: an unknown version of ApiVersions is answered in version 0, so that the client
        # can choose another.
        from ..handlers.api_versions import supported_versions

        answer = api_versions.Response(
            error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=supported_versions()
        )
        return encode_response(answer, 0, correlation_id)

    def _may_hold_back(self, chunk: bytes, position: int) -> bool:
        """True if the next frame is complete and will be answered without waiting."""
        if len(chunk) - position < _HEAD_SIZE_BYTES:
            return False
        size, api_key, _, _ = _HEAD.unpack_from(chunk, position)
        following = API_TABLE.get(api_key)
        if following is None or not following.answers_at_once:
            return False
        if position + 4 + size > len(chunk):
            return False
        return sum(map(len, self._answers)) < _ANSWERS_SIZE_BYTES_MAX

    async def _flush(self) -> None:
        answers, self._answers = self._answers, []
        self._is_sending = True
        await self._transport.send(answers)
        self._is_sending = False
        self.last_active = self._broker.clock.monotonic()

    def finish(self) -> None:
        """Close now, or after the answers to requests that are being served."""
        self._is_last_answer = True
        if self._later:
            self._wake()
        elif self._room is not None:  # the client has to wait, and has all its answers
            self._room.set()
        elif not (self.is_serving or self._is_sending):
            self._transport.close()

    def has_moved(self) -> bool:
        """Whether the client has read bytes since the last call: a slow reader is not idle."""
        seen, self._moves_seen = self._moves_seen, self._transport.moves
        return seen != self._moves_seen

    def end_if_client_left(self) -> None:
        """Give up a request whose client disconnected while it waits for the answer.

        Nothing reads from a connection while a request is served, so this would not be noticed
        otherwise, and a Fetch may wait for weeks if the client asked for that.
        """
        if self.is_serving and self._transport.has_peer_left():
            self._scope.cancel()

    def close(self) -> None:
        self._transport.close()
