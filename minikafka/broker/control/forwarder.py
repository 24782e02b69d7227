"""Brings requests to the active controller, wherever it is.

There are two kinds: Kafka requests of clients (and of brokers that want a topic), forwarded as they
are; and operations of brokers. Where this node is the controller both are plain calls. A forwarded
answer carries the index that the controller had applied; it is held back until this node has
applied that, too, so that a client that asks here next finds what it created.

No request waits for ever. While no controller is known, or it changes, a request that was not sent
yet is retried for `CONTROLLER_SECONDS_MAX`. A request that was sent and not answered may have been
carried out, and is not repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import trio

from ...protocol.api import ApiKey, response_class
from ...protocol.errors import ErrorCode
from ...protocol.exceptions import MalformedMessageError
from ...protocol.frames import decode_response_header, encode_request, peek_api
from ...protocol.schema import Request, Response
from ...security.principal import ANONYMOUS, BROKER, Principal
from ..quorum.change_error import ChangeError
from ..quorum.quorum import NotControllerError
from ..rpc import operations
from ..rpc.codec import Operation, Reply
from ..rpc.errors import (
    RpcBusyError,
    RpcFailure,
    RpcLostError,
    RpcMalformedError,
    RpcRemoteError,
    RpcTimeoutError,
    RpcUnreachableError,
)
from ..rpc.lanes import Lane
from ..rpc.operations import NOT_CONTROLLER, ControllerAnswer

if TYPE_CHECKING:
    from ..quorum.quorum import Quorum
    from ..rpc.peers import Peers
    from ..rpc.server import RpcServer
    from ..settings.node import Node
    from .controller import Controller
    from .operations import Operations

logger = logging.getLogger(__name__)

_Request = TypeVar("_Request")
_Answer = TypeVar("_Answer")

CONTROLLER_SECONDS_MAX = 10.0
"""How long a request waits for a controller that takes it."""
ANSWER_SECONDS_MAX = 30.0
"""How long a forwarded request may take."""
APPLIED_SECONDS_MAX = 5.0
"""How long an answer waits for this node to have applied what the controller had."""

_PAUSE_SECONDS = 0.1
_ABOUT_VOTERS = frozenset({ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER, ApiKey.UPDATE_FEATURES})
"""Their answers are waited for when the controller is replaced: one that removes itself may be
before it has answered, and one whose voters stand still finds out how that ended."""


class ControllerApi(Protocol):
    """Kafka's requests to controllers, served on this node."""

    async def serve(self, request: Request, version: int) -> Response:
        """Answer a request of this node's own."""
        ...

    async def serve_frame(self, frame: memoryview, client_host: str, principal: Principal) -> bytes:
        """Answer a forwarded frame (without its size) by a frame (with its size).

        The client is authorized here, as the principal that it is where it sent the request.

        Raises:
            MalformedMessageError: controllers do not serve it, or it cannot be read.
        """
        ...


class Forwarder:
    """Asks the active controller.

    Args:
        here: answers brokers' operations where this node is the controller.
        peers: connections to the other nodes; None where there is no cluster.

    Attributes:
        api: serves Kafka's requests where this node is the controller; set before it runs.
    """

    api: ControllerApi

    def __init__(
        self,
        node: Node,
        quorum: Quorum,
        controller: Controller,
        here: Operations,
        peers: Peers | None,
    ) -> None:
        self._node = node
        self._quorum = quorum
        self._controller = controller
        self._here = here
        self._peers = peers

    # --- asking --------------------------------------------------------------------------------

    async def request(self, request: Request, version: int) -> Response:
        """Have a Kafka request of this broker itself answered by the controller.

        Raises:
            ChangeError: there is no controller, or the outcome is unknown.
        """
        if not self._controller.is_active:
            parts = encode_request(request, version, 0, None)
            answer = await self.frame(memoryview(b"".join(parts))[4:], "", BROKER)
            if answer is not None:
                kind = response_class(ApiKey(request.API_KEY))
                view = memoryview(answer)[4:]
                _, position = decode_response_header(view, flexible=version in kind.FLEXIBLE)
                return kind.decode(version, view, position)
        return await self.api.serve(request, version)

    async def frame(
        self, frame: memoryview, client_host: str, principal: Principal
    ) -> bytes | None:
        """Have a client's request frame answered by the controller.

        Args:
            frame: the frame without its size.
            client_host: where the client is; empty for this broker itself.
            principal: who the client is; the controller authorizes it.

        Returns:
            The answer's frame with its size; None when this node is the controller by now.

        Raises:
            ChangeError: there is no controller, or the outcome is unknown.
        """
        message = operations.Forward(client_host, str(principal))
        reply = await self._call(
            operations.FORWARD,
            message,
            [frame],
            lane=Lane.FORWARDED,
            is_lasting=peek_api(frame)[0] in _ABOUT_VOTERS,
        )
        if reply is None:
            return None
        with trio.move_on_after(APPLIED_SECONDS_MAX):
            await self._quorum.wait_applied(reply.message.applied_index)
        return bytes(reply.attachments[0])

    async def ask(
        self,
        operation: Operation[_Request, ControllerAnswer[_Answer]],
        request: _Request,
        *,
        timeout_s: float,
    ) -> _Answer:
        """Ask the controller for something that is not a Kafka request.

        Raises:
            ChangeError: it refuses, or cannot be asked (NOT_CONTROLLER: nothing happened), or did
                not answer (REQUEST_TIMED_OUT: it may have happened).
        """
        try:
            with trio.fail_after(timeout_s):
                reply = await self._call(operation, request, ())
                if reply is None:
                    return await self._here.answer(operation, request)
                answer = reply.message
                await self._quorum.wait_applied(answer.applied_index)
        except trio.TooSlowError:
            raise ChangeError(
                ErrorCode.REQUEST_TIMED_OUT, "the controller did not answer in time"
            ) from None
        if answer.error_code is not ErrorCode.NONE or answer.result is None:
            raise ChangeError(answer.error_code, answer.message or "the controller refuses")
        return answer.result

    async def _call(
        self,
        operation: Operation[_Request, _Answer],
        request: _Request,
        attachments: Sequence[Any],
        *,
        lane: Lane = Lane.CONTROL,
        is_lasting: bool = False,
    ) -> Reply[_Answer] | None:
        """Ask the controller; None when this node is it (or would be, if its disk worked)."""
        quorum = self._quorum
        deadline = trio.current_time() + CONTROLLER_SECONDS_MAX
        while True:
            leader_id = quorum.leader_id
            if quorum.is_leader or (self._node.is_alone and quorum.failure is not None):
                return None
            if leader_id is not None and leader_id != self._node.node_id:
                assert self._peers is not None, "a node without peers is the only voter"
                try:
                    return await self._peers.client(leader_id, lane).call(
                        operation,
                        request,
                        attachments,
                        timeout_s=ANSWER_SECONDS_MAX,
                        is_lasting=is_lasting,
                    )
                except (RpcUnreachableError, RpcBusyError):
                    pass  # it was not sent
                except RpcRemoteError as error:
                    if error.kind != NOT_CONTROLLER:
                        raise ChangeError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None
                except (RpcLostError, RpcTimeoutError, RpcMalformedError) as error:
                    raise ChangeError(
                        ErrorCode.REQUEST_TIMED_OUT,
                        f"the outcome of the request is unknown: {error}",
                    ) from None
            if trio.current_time() >= deadline:
                raise NotControllerError(quorum.leader_id)
            with trio.move_on_after(_PAUSE_SECONDS):
                await quorum.wait_changed()

    # --- answering -----------------------------------------------------------------------------

    def register(self, server: RpcServer) -> None:
        server.register(operations.FORWARD, self._serve)

    async def _serve(
        self, node_id: int, message: operations.Forward, attachments: Sequence[memoryview]
    ) -> Reply[operations.Forwarded]:
        if not self._controller.is_active:
            raise RpcFailure(NOT_CONTROLLER, "this node is not the controller")
        try:
            (frame,) = attachments
            principal = principal_of(message)
            answer = await self.api.serve_frame(frame, message.client_host, principal)
        except (MalformedMessageError, ValueError) as error:
            raise RpcFailure("Malformed", f"node {node_id} forwards {error}") from None
        return Reply(operations.Forwarded(self._quorum.applied_index), [answer])


def principal_of(message: operations.Forward) -> Principal:
    """Who a forwarded request is from.

    Raises:
        ValueError: a client passes for a broker.
    """
    if not message.principal:  # from a node that does not know principals
        return ANONYMOUS if message.client_host else BROKER
    kind, _, name = message.principal.partition(":")
    principal = Principal(kind, name)
    if (principal == BROKER) != (not message.client_host):
        raise ValueError(f"a request of {principal} from the host {message.client_host!r}")
    return principal
