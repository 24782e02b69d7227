"""The side that asks: one connection to one node, which is re-established when it ends.

States: *connecting* (also during a pause between attempts), *connected*. A request during a pause
starts an attempt at once and shares its outcome, so no request waits for a node that is known to be
gone. When a connection ends, the next attempt follows at once; if the machine refuses it, or
another process answers, the node's process is gone, and listeners are notified.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar, cast

import trio

from ...security.node_proof import NONCE_SIZE_BYTES, Meeting, is_same
from ..system.backoff import Backoff
from ..transport.sockets import connect
from ..transport.tls import TlsHandshakeError
from ..transport.transport import ConnectionLostError, NodeStream
from .calls import Call, Callback, OnAnswer, reply_of
from .codec import OneWay, Operation, Reply
from .errors import (
    RpcBusyError,
    RpcLostError,
    RpcProtocolError,
    RpcTimeoutError,
    RpcUnreachableError,
)
from .frames import Frame, FrameKind
from .identity import Hello, Identity, Proof, decode_challenge, decode_hello, decode_proof
from .link import Link

logger = logging.getLogger(__name__)

_Request = TypeVar("_Request")
_Answer = TypeVar("_Answer")

CALLS_AT_ONCE_MAX = 1024
"""Requests that may wait for answers over one connection."""

CONNECT_SECONDS_MAX = 2.0
HELLO_SECONDS_MAX = 2.0
REST_SECONDS_FIRST = 0.002
"""Short: a process that is just ending may still take a connection, only to reset it."""
REST_SECONDS_MAX = 1.0
REST_SECONDS_REFUSED = 5.0
"""After the other side said that it does not want this node."""

Address = tuple[str, int]
Connect = Callable[[str, int], Awaitable[NodeStream]]


class Loss(NamedTuple):
    """A connection ended, or an attempt to make one was refused.

    Attributes:
        node_id: the other end.
        incarnation: of the process at the other end; empty when there was no connection before.
        is_gone: that process has ended.
    """

    node_id: int
    incarnation: bytes
    is_gone: bool


class RpcClient:
    """Asks one node.

    Attributes:
        address: where the node is, None while that is unknown.
        hello: the node's identity, None while there is no connection.
    """

    def __init__(
        self,
        identity: Identity,
        node_id: int,
        address: Address | None,
        *,
        on_connected: Callable[[Hello], None] | None = None,
        on_broken: Callable[[int], None] | None = None,
        on_lost: Callable[[Loss], None] | None = None,
        connect_to: Connect = connect,
        dice: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.node_id = node_id
        self.address = address
        self.hello: Hello | None = None
        self._identity = identity
        self._on_connected = on_connected
        self._on_broken = on_broken
        self._on_lost = on_lost
        self._connect_to = connect_to
        self._backoff = Backoff(REST_SECONDS_FIRST, REST_SECONDS_MAX, dice)
        self._link: Link | None = None
        self._calls: dict[int, Call | Callback[Any]] = {}
        self._lasting: set[int] = set()
        self._number = 0
        self._settled = trio.Event()
        """Set at the end of each attempt to connect."""
        self._rest: trio.CancelScope | None = None
        self._failure = "no attempt to connect was made yet"
        self._logged = ""
        self._is_unwanted = False

    @property
    def is_connected(self) -> bool:
        """True while there is a connection over which both sides said who they are."""
        return self._link is not None

    # --- asking --------------------------------------------------------------------------------

    async def call(
        self,
        operation: Operation[_Request, _Answer],
        request: _Request,
        attachments: Sequence[Any] = (),
        *,
        timeout_s: float,
        is_lasting: bool = False,
    ) -> Reply[_Answer]:
        """Ask, and wait for the answer.

        If the caller is cancelled, the other side is notified and gives up the request.

        Args:
            operation: what to ask for.
            request: the question.
            attachments: buffers, `FileSlice` or `FilePayload` objects.
            timeout_s: seconds for everything, a missing connection included.
            is_lasting: wait also when `give_up_deposed` is called.

        Raises:
            RpcUnreachableError: no connection; it was not sent.
            RpcLostError: the connection ended.
            RpcTimeoutError: no answer in time.
            RpcRemoteError: the other side says that it cannot.
            RpcMalformedError: the answer is malformed.
            RpcBusyError: too many wait already.
            ValueError: the request is too large.
        """
        with trio.move_on_after(timeout_s):
            link = self._link or await self._attempt()
            try:
                if not link.has_room:
                    await link.room()
                fields = operation.request.encode(request)
                frame = await self._ask(
                    link, operation.name, fields, attachments, is_lasting=is_lasting
                )
                return reply_of(frame, operation.answer)
            except ConnectionLostError as error:
                raise RpcLostError(f"node {self.node_id}: {error}") from None
        raise RpcTimeoutError(
            f"node {self.node_id} did not answer {operation.name!r} in {timeout_s:g} s"
        )

    async def _ask(
        self,
        link: Link,
        name: str,
        fields: Any,
        attachments: Sequence[Any],
        *,
        is_lasting: bool,
    ) -> Frame:
        if len(self._calls) >= CALLS_AT_ONCE_MAX:
            raise RpcBusyError(f"{len(self._calls)} requests wait for node {self.node_id}")
        self._number = number = self._number + 1
        call = self._calls[number] = Call()
        if is_lasting:
            self._lasting.add(number)
        try:
            link.put(FrameKind.REQUEST, number, name, fields, attachments)
            return await call.wait()
        except trio.Cancelled:
            self._send_cancel(link, number)
            raise
        finally:
            del self._calls[number]
            self._lasting.discard(number)

    async def connected(self, *, timeout_s: float) -> None:
        """Wait until there is a connection.

        Raises:
            RpcUnreachableError: it cannot be made.
            RpcTimeoutError: not in time.
        """
        with trio.move_on_after(timeout_s):
            if self._link is None:
                await self._attempt()
            return
        raise RpcTimeoutError(f"no connection to node {self.node_id} in {timeout_s:g} s")

    def ask(
        self,
        operation: Operation[_Request, _Answer],
        request: _Request,
        attachments: Sequence[Any] = (),
        *,
        on_answer: OnAnswer[_Answer],
    ) -> None:
        """Ask without waiting: for what is asked again and again, where a task would cost more.

        Args:
            operation: what to ask for.
            request: the question.
            attachments: as in `call`.
            on_answer: a plain function that gets the answer, or why there is none, once; it is
                called on the event loop and must neither block nor raise. There is no time limit:
                the caller watches the clock.

        Raises:
            RpcUnreachableError: no connection; it was not sent.
            RpcBusyError: too many wait already.
            ValueError: the request is too large.
        """
        link = self._link
        if link is None:
            raise RpcUnreachableError(f"node {self.node_id} cannot be reached: {self._failure}")
        if len(self._calls) >= CALLS_AT_ONCE_MAX or not link.has_room:
            raise RpcBusyError(f"{len(self._calls)} requests wait for node {self.node_id}")
        self._number = number = self._number + 1
        self._calls[number] = Callback(operation.answer, on_answer)
        fields = operation.request.encode(request)
        try:
            link.put(FrameKind.REQUEST, number, operation.name, fields, attachments)
        except ConnectionLostError as error:
            del self._calls[number]
            raise RpcUnreachableError(f"node {self.node_id}: {error}") from None
        except BaseException:
            del self._calls[number]
            raise

    def _send_cancel(self, link: Link, number: int) -> None:
        if not link.is_closed and link.has_room:
            with suppress(ConnectionLostError):  # then the other side knows
                link.put(FrameKind.CANCEL, number, "", None)

    def send(
        self, operation: OneWay[_Request], message: _Request, attachments: Sequence[Any] = ()
    ) -> bool:
        """Send a message that has no answer; returns False when it was dropped.

        Raises:
            ValueError: it is too large.
        """
        link = self._link
        if link is None or not link.has_room:
            return False
        try:
            fields = operation.message.encode(message)
            link.put(FrameKind.ONE_WAY, 0, operation.name, fields, attachments)
        except ConnectionLostError:
            return False
        return True

    async def _attempt(self) -> Link:
        """Wait for the outcome of an attempt to connect, which begins now if none goes on."""
        self.kick()
        await self._settled.wait()
        if self._link is None:
            raise RpcUnreachableError(f"node {self.node_id} cannot be reached: {self._failure}")
        return self._link

    def kick(self) -> None:
        """Try to connect now instead of resting; the node may have come back."""
        if self._rest is not None and not self._is_unwanted:
            self._settled = trio.Event()
            self._rest.cancel()
            self._rest = None

    def move(self, address: Address) -> None:
        if address != self.address:
            self.address = address
            self.disconnect()
            self.kick()

    def give_up_calls(self, reason: str) -> None:
        """Fail all requests that wait for answers; their outcome is unknown."""
        self._give_up([*self._calls], reason)

    def give_up_deposed(self, reason: str) -> None:
        """Fail those that the other side may never answer now that it has been replaced."""
        self._give_up([number for number in self._calls if number not in self._lasting], reason)

    def _give_up(self, numbers: Sequence[int], reason: str) -> None:
        failure = RpcLostError(f"node {self.node_id}: {reason}")
        for number in numbers:
            call = self._calls[number]
            if type(call) is Callback:
                del self._calls[number]
            call.put(failure)

    def introduce(self) -> None:
        """Say again who this node is: it has learned which cluster it belongs to."""
        if self._link is not None:
            with suppress(ConnectionLostError):  # the next connection begins with it
                self._link.put(FrameKind.HELLO, 0, "", self._identity.hello())

    def disconnect(self) -> None:
        """End the connection, if there is one; another one is made."""
        if self._link is not None:
            self._link.close()

    # --- the connection ------------------------------------------------------------------------

    async def run(self) -> None:
        backoff = self._backoff
        lost: Hello | None = None
        try:
            while True:
                connection = await self._open(lost)
                lost = None
                if connection is not None:
                    began_s = trio.current_time()
                    await self._serve(*connection)
                    lost = connection[1]
                    if trio.current_time() - began_s >= backoff.pause_s:
                        backoff.reset()
                        continue  # the first attempt follows at once
                await self._pause(backoff.next_pause())
        finally:
            self._rest = None
            self._failure = "this node is stopping"
            self._settled.set()

    async def _pause(self, seconds: float) -> None:
        with trio.CancelScope() as self._rest:
            self._settled.set()
            await trio.sleep(REST_SECONDS_REFUSED if self._is_unwanted else seconds)
        self._rest = None
        self._is_unwanted = False
        if self._settled.is_set():
            self._settled = trio.Event()

    async def _open(self, lost: Hello | None) -> tuple[Link, Hello] | None:
        """Make a connection; ``lost`` is who was at the end of the last one."""
        try:
            link, hello = await self._greet()
        except ConnectionRefusedError:
            self._log_once("connection refused")
            incarnation = b"" if lost is None else lost.incarnation
            self._report(Loss(self.node_id, incarnation, is_gone=True))
            return None
        except (
            OSError,
            ConnectionLostError,
            RpcProtocolError,
            TlsHandshakeError,
            trio.TooSlowError,
        ) as error:
            self._log_once(_words(error))
            if lost is not None:
                self._report(Loss(self.node_id, lost.incarnation, is_gone=False))
            return None
        if lost is not None:
            is_other = hello.incarnation != lost.incarnation
            self._report(Loss(self.node_id, lost.incarnation, is_gone=is_other))
        return link, hello

    async def _greet(self) -> tuple[Link, Hello]:
        if self.address is None:
            raise OSError(errno.EADDRNOTAVAIL, "its address is not known")
        with trio.fail_after(CONNECT_SECONDS_MAX):
            stream = await self._connect_to(*self.address)
        link = Link(stream)
        try:
            link.put(FrameKind.HELLO, 0, "", self._identity.hello())
            with trio.fail_after(HELLO_SECONDS_MAX):
                await link.flush()
                frame = await link.receive()
                if self._identity.secret:
                    frame = await self._prove(link, frame)
            if frame is None:
                raise ConnectionLostError("it closed the connection without a word")
            hello = self._judge(frame)
        except BaseException:
            link.close()
            raise
        link.trust()
        return link, hello

    async def _prove(self, link: Link, frame: Frame | None) -> Frame | None:
        """Show that this node knows the secret, and see that the other does.

        Returns:
            The frame after the proofs.

        Raises:
            RpcProtocolError: the other side does not know it.
        """
        if frame is None or frame.kind == FrameKind.REFUSAL:
            return frame
        if frame.kind != FrameKind.CHALLENGE:
            self._is_unwanted = True
            raise RpcProtocolError(
                "it does not ask for the secret of this cluster (minikafka.internal.secret), so "
                "it may be anybody; give it the same secret"
            )
        secret = self._identity.secret.reveal()
        nonce = os.urandom(NONCE_SIZE_BYTES)
        meeting = Meeting(
            self._identity.node_id, self.node_id, nonce, decode_challenge(frame.fields).nonce
        )
        link.put(FrameKind.PROOF, 0, "", Proof(meeting.asking_proof(secret), nonce))
        await link.flush()
        answer = await link.receive()
        if (
            answer is None
            or answer.kind != FrameKind.PROOF
            or not is_same(decode_proof(answer.fields).proof, meeting.answering_proof(secret))
        ):
            self._is_unwanted = True
            raise RpcProtocolError(
                "it does not know the same secret (minikafka.internal.secret), or one of the two "
                "has the wrong --quorum"
            )
        return await link.receive()

    def _judge(self, frame: Frame) -> Hello:
        if frame.kind == FrameKind.CHALLENGE:
            self._is_unwanted = True
            raise RpcProtocolError(
                "it asks for a secret, and this node has none; set minikafka.internal.secret.file"
            )
        if frame.kind == FrameKind.REFUSAL:
            self._is_unwanted = True
            raise RpcProtocolError(f"it does not talk to this node: {frame.fields}")
        hello = decode_hello(frame.fields if frame.kind == FrameKind.HELLO else None)
        problem = self._identity.problem_with(hello)
        if hello.node_id != self.node_id:
            problem = f"it is node {hello.node_id}; one of the two has the wrong --quorum"
        if problem is not None:
            self._is_unwanted = True
            raise RpcProtocolError(problem)
        return hello

    async def _serve(self, link: Link, hello: Hello) -> None:
        self._link, self.hello = link, hello
        self._logged = ""
        logger.debug("connected to node %d at %s", self.node_id, self.address)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, link)
                self._settled.set()
                if self._on_connected is not None:
                    self._on_connected(hello)
                await self._read(link)
                nursery.cancel_scope.cancel()
        finally:
            self._link = self.hello = None
            self._settled = trio.Event()
            link.close()
            self.give_up_calls("the connection ended")
            if self._on_broken is not None:
                self._on_broken(self.node_id)

    async def _write(self, link: Link) -> None:
        try:
            await link.run_writer()
        except ConnectionLostError:
            link.close()

    async def _read(self, link: Link) -> None:
        try:
            while (frame := await link.receive()) is not None:
                if frame.kind not in (FrameKind.ANSWER, FrameKind.FAILURE):
                    raise RpcProtocolError(f"a frame of kind {frame.kind} is no answer")
                call = self._calls.get(frame.number)
                if call is not None:
                    if type(call) is Callback:
                        del self._calls[frame.number]
                    call.put(frame)
        except ConnectionLostError as error:
            self._failure = str(error)
        except RpcProtocolError as error:
            logger.error("node %d at %s: %s", self.node_id, self.address, error)

    def _report(self, loss: Loss) -> None:
        if loss.incarnation:
            logger.info(
                "the connection to node %d ended%s",
                loss.node_id,
                "; its process is gone" if loss.is_gone else "",
            )
        if self._on_lost is not None:
            self._on_lost(loss)

    def _log_once(self, failure: str) -> None:
        """Remember why there is no connection, and log it if that has changed."""
        self._failure = failure
        if failure != self._logged:
            self._logged = failure
            level = logging.ERROR if self._is_unwanted else logging.INFO
            logger.log(level, "node %d at %s: %s", self.node_id, self.address, failure)


def _words(error: Exception) -> str:
    if isinstance(error, trio.TooSlowError):
        return "no answer in time"
    text = cast("str | None", getattr(error, "strerror", None))
    return text or str(error)
