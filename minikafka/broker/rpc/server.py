"""The side that answers: operations by name, each request in a task of its own.

Answers leave in any order. Messages without an answer are handled in the order in which they come,
by plain functions; so are the requests of some operations, which are answered whenever it suits. A
request whose asking side goes away, or gives up, is cancelled.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import trio

from ...security.node_proof import NONCE_SIZE_BYTES, Meeting, is_same
from ..transport.sockets import stream_of
from ..transport.tls import TlsHandshakeError
from ..transport.transport import ConnectionLostError, NodeStream
from .codec import Codec, MalformedFieldsError, OneWay, Operation, Reply, Respond
from .errors import RpcFailure, RpcProtocolError
from .frames import Frame, FrameKind
from .identity import Challenge, Hello, Identity, Proof, decode_hello, decode_proof
from .link import Link

logger = logging.getLogger(__name__)

REQUESTS_AT_ONCE_MAX = 1024
"""Requests that one connection may have open; a node asks for no more (`CALLS_AT_ONCE_MAX`)."""
REQUESTS_SIZE_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of open requests of one connection; with more of them the next one is not read yet."""
CONNECTIONS_MAX = 512
GREETINGS_AT_ONCE_MAX = 64
"""Connections of which it is not known whether they are nodes'."""
HELLO_SECONDS_MAX = 5.0
_REFUSALS_REMEMBERED_MAX = 256
_ACCEPT_PAUSE_SECONDS = 0.1

_Q = TypeVar("_Q")
_A = TypeVar("_A")

Handler = Callable[[int, _Q, Sequence[memoryview]], Awaitable[Reply[_A]]]
"""Awaited with (node that asks, request, attachments)."""
OneWayHandler = Callable[[int, _Q, Sequence[memoryview]], None]
DeferredHandler = Callable[[int, _Q, Sequence[memoryview], Respond[_A]], None]
"""Called with (node that asks, request, attachments, how to answer)."""


MakeStream = Callable[[trio.socket.SocketType], Awaitable[NodeStream]]
"""Makes the stream of an accepted socket; raises ConnectionLostError or TlsHandshakeError."""

Believes = Callable[[Hello], bool]
"""Whether a message of the process that said this hello is to be taken."""


async def _plain_stream(accepted: trio.socket.SocketType) -> NodeStream:
    return stream_of(accepted)


def _believe_all(hello: Hello) -> bool:
    del hello
    return True


class _Registered(NamedTuple, Generic[_Q, _A]):
    """An operation, and what answers it."""

    operation: Operation[_Q, _A]
    handler: Handler[_Q, _A]


class _Deferred(NamedTuple, Generic[_Q, _A]):
    operation: Operation[_Q, _A]
    handler: DeferredHandler[_Q, _A]
    believes: Believes


class _OneWay(NamedTuple, Generic[_Q]):
    codec: Codec[_Q]
    handler: OneWayHandler[_Q]
    believes: Believes


class RpcServer:
    """Answers other nodes.

    Attributes:
        connections: how many there are.
    """

    def __init__(
        self,
        identity: Identity,
        *,
        on_hello: Callable[[Hello], None] | None = None,
        make_stream: MakeStream = _plain_stream,
    ) -> None:
        self._identity = identity
        self._make_stream = make_stream
        self._greeting: dict[trio.CancelScope, None] = {}
        self._on_hello = on_hello
        self._operations: dict[str, _Registered[Any, Any]] = {}
        self._one_way: dict[str, _OneWay[Any]] = {}
        self._deferred: dict[str, _Deferred[Any, Any]] = {}
        self._for_joining: set[str] = set()
        self._refused: dict[str, None] = {}
        self.connections = 0

    def register(self, operation: Operation[_Q, _A], handler: Handler[_Q, _A]) -> None:
        """Answer an operation with what an async function returns.

        The function may raise `RpcFailure`; any other exception is logged as a bug.
        """
        self._operations[operation.name] = _Registered(operation, handler)

    def register_deferred(
        self,
        operation: Operation[_Q, _A],
        handler: DeferredHandler[_Q, _A],
        *,
        believes: Believes = _believe_all,
    ) -> None:
        """Give requests to a plain function, which answers now or later, without a task.

        For operations of which a node has one request open at a time; others are not bounded here.
        The function may raise `RpcFailure`; it is not notified when the asking side gives up.
        ``believes`` decides for each request whether the process that asks may.
        """
        self._deferred[operation.name] = _Deferred(operation, handler, believes)

    def register_one_way(
        self,
        operation: OneWay[_Q],
        handler: OneWayHandler[_Q],
        *,
        believes: Believes = _believe_all,
    ) -> None:
        """Take messages without answers.

        The function may raise `RpcProtocolError`, which ends the connection. ``believes`` is as in
        `register_deferred`.
        """
        self._one_way[operation.name] = _OneWay(operation.message, handler, believes)

    def open_to_joining(self, *operations: Operation[Any, Any] | OneWay[Any]) -> None:
        """Let nodes use these before they know which cluster they belong to."""
        self._for_joining |= {operation.name for operation in operations}

    async def serve(self, listener: trio.socket.SocketType) -> None:
        """Accept connections until cancelled; closes the listener."""
        with listener:
            async with trio.open_nursery() as nursery:
                while True:
                    try:
                        accepted, address = await listener.accept()
                    except OSError as error:
                        logger.error("cannot accept an internal connection: %s", error)
                        await trio.sleep(_ACCEPT_PAUSE_SECONDS)
                        continue
                    if self.connections - len(self._greeting) >= CONNECTIONS_MAX:
                        self._refuse_once(f"{address}", "too many internal connections")
                        accepted.close()
                        continue
                    if len(self._greeting) >= GREETINGS_AT_ONCE_MAX:
                        # Nodes say who they are at once, so the oldest is most likely a stranger.
                        self._refuse_once("several", "too many that do not say who they are")
                        oldest = next(iter(self._greeting))
                        del self._greeting[oldest]
                        oldest.cancel()
                    self.connections += 1
                    nursery.start_soon(self._serve_socket, accepted, str(address[0]))

    async def _serve_socket(self, accepted: trio.socket.SocketType, host: str) -> None:
        greeting = trio.CancelScope()
        self._greeting[greeting] = None
        try:
            with greeting:
                try:
                    with trio.fail_after(HELLO_SECONDS_MAX):
                        link = Link(await self._make_stream(accepted))
                except ConnectionLostError:
                    return
                except (TlsHandshakeError, trio.TooSlowError) as error:
                    self._refuse_once(host, f"TLS: {str(error) or 'it said nothing'}")
                    return
                await self.serve_link(link, host, greeting)
        finally:
            self._greeting.pop(greeting, None)
            accepted.close()
            self.connections -= 1

    async def serve_link(
        self, link: Link, host: str, greeting: trio.CancelScope | None = None
    ) -> None:
        """Serve one connection until it ends; never raises for what the other side did."""
        try:
            hello = await self._greet(link, host)
            if greeting is not None:
                self._greeting.pop(greeting, None)
            if hello is not None:
                link.trust()
                await _Session(
                    link,
                    hello,
                    self._identity,
                    self._operations,
                    self._one_way,
                    self._deferred,
                    self._for_joining,
                ).run()
        except ConnectionLostError:
            pass
        except RpcProtocolError as error:
            self._refuse_once(host, str(error))
        except trio.TooSlowError:
            self._refuse_once(host, f"it said nothing for {HELLO_SECONDS_MAX:g} s")
        finally:
            link.close()

    async def _greet(self, link: Link, host: str) -> Hello | None:
        with trio.fail_after(HELLO_SECONDS_MAX):
            frame = await link.receive()
        if frame is None:
            return None
        hello = decode_hello(frame.fields if frame.kind == FrameKind.HELLO else None)
        if self._identity.secret and not await self._knows_secret(link, hello):
            self._refuse_once(
                host,
                "it does not know the secret of this cluster; if it is a node, give it the same "
                "minikafka.internal.secret.file",
            )
            return None
        problem = self._identity.problem_with(hello)
        if problem is not None:
            self._refuse_once(f"node {hello.node_id} at {host}", problem)
            # Seen from there, "it" is this node.
            mine = Identity(hello.node_id, hello.incarnation, hello.cluster_id)
            link.put(FrameKind.REFUSAL, 0, "", mine.problem_with(self._identity.hello()) or problem)
            return None
        link.put(FrameKind.HELLO, 0, "", self._identity.hello())
        if self._on_hello is not None:
            self._on_hello(hello)
        return hello

    async def _knows_secret(self, link: Link, hello: Hello) -> bool:
        """Ask for a proof, before anything is said about this node; give one in turn."""
        secret = self._identity.secret.reveal()
        nonce = os.urandom(NONCE_SIZE_BYTES)
        link.put(FrameKind.CHALLENGE, 0, "", Challenge(nonce))
        with trio.fail_after(HELLO_SECONDS_MAX):
            await link.flush()
            frame = await link.receive()
        if frame is None or frame.kind != FrameKind.PROOF:
            return False
        shown = decode_proof(frame.fields)
        meeting = Meeting(hello.node_id, self._identity.node_id, shown.nonce, nonce)
        if not (shown.nonce and is_same(shown.proof, meeting.asking_proof(secret))):
            return False
        link.put(FrameKind.PROOF, 0, "", Proof(meeting.answering_proof(secret)))
        return True

    def _refuse_once(self, who: str, problem: str) -> None:
        text = f"refused an internal connection from {who}: {problem}"
        if text not in self._refused:
            if len(self._refused) >= _REFUSALS_REMEMBERED_MAX:
                self._refused.clear()
            self._refused[text] = None
            logger.error("%s", text)


class _Session:
    """What happens on one connection after the hellos."""

    __slots__ = (
        "_deferred",
        "_for_joining",
        "_freed",
        "_handlers",
        "_hello",
        "_identity",
        "_link",
        "_node_id",
        "_one_way",
        "_open",
        "_size_bytes",
    )

    def __init__(
        self,
        link: Link,
        hello: Hello,
        identity: Identity,
        handlers: dict[str, _Registered[Any, Any]],
        one_way: dict[str, _OneWay[Any]],
        deferred: dict[str, _Deferred[Any, Any]],
        for_joining: set[str],
    ) -> None:
        self._deferred = deferred
        self._for_joining = for_joining
        self._link = link
        self._hello = hello
        self._identity = identity
        self._node_id = hello.node_id
        self._handlers = handlers
        self._one_way = one_way
        self._open: dict[int, trio.CancelScope] = {}
        self._size_bytes = 0
        self._freed: trio.Event | None = None

    async def run(self) -> None:
        failures: list[RpcProtocolError] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write)
            try:
                await self._read(nursery)
            except ConnectionLostError:
                pass
            except RpcProtocolError as error:
                failures.append(error)
            nursery.cancel_scope.cancel()
        if failures:
            raise failures[0]

    async def _write(self) -> None:
        try:
            await self._link.run_writer()
        except ConnectionLostError:
            self._link.close()  # wakes the reader

    async def _read(self, nursery: trio.Nursery) -> None:
        while (frame := await self._link.receive()) is not None:
            match frame.kind:
                case FrameKind.REQUEST:
                    deferred = self._deferred.get(frame.name)
                    if deferred is None:
                        await self._take(frame, nursery)
                    else:
                        self._take_deferred(frame, deferred)
                case FrameKind.ONE_WAY:
                    self._take_one_way(frame)
                case FrameKind.HELLO:
                    self._take_hello(decode_hello(frame.fields))
                case FrameKind.CANCEL:
                    scope = self._open.get(frame.number)
                    if scope is not None:
                        scope.cancel()
                case _:
                    raise RpcProtocolError(f"a frame of kind {frame.kind} is no request")

    def _take_hello(self, hello: Hello) -> None:
        """A node says again who it is: it has learned which cluster it belongs to.

        Raises:
            RpcProtocolError: it is another one now, or of another cluster.
        """
        problem = self._identity.problem_with(hello)
        before = (self._node_id, self._hello.incarnation)
        if problem is None and (hello.node_id, hello.incarnation) != before:
            problem = f"it was node {self._node_id} before"
        if problem is not None:
            raise RpcProtocolError(f"as node {hello.node_id}: {problem}")
        self._hello = hello

    def _may_use(self, name: str) -> bool:
        """A node that does not know its cluster may only do what it needs to learn it."""
        is_of_this_cluster = not self._identity.cluster_id or bool(self._hello.cluster_id)
        return is_of_this_cluster or name in self._for_joining

    def _require_use(self, name: str) -> None:
        if not self._may_use(name):
            raise RpcFailure(
                "UnknownCluster", f"{name!r} is for nodes that know which cluster they belong to"
            )

    async def _take(self, frame: Frame, nursery: trio.Nursery) -> None:
        if len(self._open) >= REQUESTS_AT_ONCE_MAX:
            raise RpcProtocolError(f"more than {REQUESTS_AT_ONCE_MAX} requests at once")
        if frame.number in self._open:
            raise RpcProtocolError(f"request number {frame.number} is open already")
        self._size_bytes += frame.size_bytes
        self._open[frame.number] = scope = trio.CancelScope()
        nursery.start_soon(self._handle, frame, scope)
        while self._size_bytes > REQUESTS_SIZE_BYTES_MAX and len(self._open) > 1:
            self._freed = trio.Event()
            await self._freed.wait()

    def _take_deferred(self, frame: Frame, deferred: _Deferred[Any, Any]) -> None:
        operation = deferred.operation
        respond = partial(self._respond, frame.number, operation.answer.encode)
        try:
            self._require_use(frame.name)
            if not deferred.believes(self._hello):
                raise RpcFailure(
                    "NotRegistered",
                    f"{frame.name!r} is for the process that is registered as broker "
                    f"{self._node_id}",
                )
            request = operation.request.decode(frame.fields)
            deferred.handler(self._node_id, request, frame.attachments, respond)
        except MalformedFieldsError as error:
            self._link.put(FrameKind.FAILURE, frame.number, "Malformed", str(error))
        except RpcFailure as failure:
            self._link.put(FrameKind.FAILURE, frame.number, failure.kind, failure.message)
        except Exception as error:
            logger.exception("a bug in %r for node %d", frame.name, self._node_id)
            self._link.put(FrameKind.FAILURE, frame.number, "Bug", repr(error))

    def _respond(
        self, number: int, encode: Callable[[Any], Any], answer: Any, attachments: Sequence[Any]
    ) -> None:
        link = self._link
        try:
            link.put(FrameKind.ANSWER, number, "", encode(answer), attachments)
        except (ValueError, OSError) as error:
            logger.error("an answer for node %d: %s", self._node_id, error)
            with suppress(ConnectionLostError):
                link.put(FrameKind.FAILURE, number, type(error).__name__, str(error))
        except ConnectionLostError:
            pass  # the reader finds out

    def _take_one_way(self, frame: Frame) -> None:
        one_way = self._one_way.get(frame.name)
        if one_way is None:
            # Of a newer version, perhaps; its sender expects no answer.
            logger.debug("node %d sends %r, which is unknown here", self._node_id, frame.name)
            return
        if not (self._may_use(frame.name) and one_way.believes(self._hello)):
            logger.debug("node %d sends %r, and may not", self._node_id, frame.name)
            return
        try:
            one_way.handler(self._node_id, one_way.codec.decode(frame.fields), frame.attachments)
        except MalformedFieldsError as error:
            logger.error("%r of node %d is malformed: %s", frame.name, self._node_id, error)
        except RpcProtocolError as error:
            raise RpcProtocolError(f"as node {self._node_id}: {error}") from None
        except Exception:
            logger.exception("a bug in the message %r of node %d", frame.name, self._node_id)

    async def _handle(self, frame: Frame, scope: trio.CancelScope) -> None:
        link, number = self._link, frame.number
        try:
            with scope:
                try:
                    fields, attachments = await self._answer(frame)
                    if not link.has_room:
                        await link.room()
                    link.put(FrameKind.ANSWER, number, "", fields, attachments)
                except RpcFailure as failure:
                    link.put(FrameKind.FAILURE, number, failure.kind, failure.message)
                except (ValueError, OSError) as error:
                    logger.error("%r of node %d: %s", frame.name, self._node_id, error)
                    link.put(FrameKind.FAILURE, number, type(error).__name__, str(error))
        except ConnectionLostError:
            pass
        finally:
            del self._open[number]
            self._size_bytes -= frame.size_bytes
            if self._freed is not None:
                self._freed.set()
                self._freed = None

    async def _answer(self, frame: Frame) -> tuple[Any, Sequence[Any]]:
        registered = self._handlers.get(frame.name)
        if registered is None:
            raise RpcFailure("UnknownOperation", f"this node does not know {frame.name!r}")
        operation = registered.operation
        self._require_use(frame.name)
        try:
            request = operation.request.decode(frame.fields)
            message, attachments = await registered.handler(
                self._node_id, request, frame.attachments
            )
            return operation.answer.encode(message), attachments
        except MalformedFieldsError as error:
            raise RpcFailure("Malformed", f"{frame.name}: {error}") from None
        except (RpcFailure, ConnectionLostError):
            raise
        except Exception as error:
            logger.exception("a bug in %r for node %d", frame.name, self._node_id)
            raise RpcFailure("Bug", repr(error)) from error
