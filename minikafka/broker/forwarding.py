"""Bringing requests to the active controller, wherever it is.

Two kinds: Kafka requests of clients (and of brokers that want a topic), forwarded as they are; and
operations of brokers. Where this node is the controller both are plain calls. A forwarded answer
comes with the index at which the controller had applied everything; the answer waits until this
node has applied that, too, so that a client which asks here next finds what it made.

Nobody waits for ever: while no controller is known, or it changes, a request that was not sent yet
is tried again for `CONTROLLER_SECONDS_MAX`. What was sent and has no answer may have happened, and
is not repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import trio

from ..protocol.api import response_class
from ..protocol.errors import ErrorCode
from ..protocol.exceptions import MalformedMessageError
from ..protocol.frames import (
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_response,
    peek_api,
)
from ..protocol.schema import Request, Response
from .change_error import ChangeError
from .connection import RequestContext
from .handlers import API_TABLE, Handler
from .quorum import NotControllerError

if TYPE_CHECKING:
    from .broker import Broker
    from .rpc import Reply

logger = logging.getLogger(__name__)

CONTROLLER_SECONDS_MAX = 10.0
"""How long a request waits for a controller that takes it."""
ANSWER_SECONDS_MAX = 30.0
"""How long a forwarded request may take."""
APPLIED_SECONDS_MAX = 5.0
"""How long an answer waits for this node to have applied what the controller had."""
FORWARD = "forward"

NOT_CONTROLLER = "NotController"
"""The kind of failure after which the request goes to another node."""

_PAUSE_SECONDS = 0.1


class Forwarder:
    """Knows the way to the active controller."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    # --- asking --------------------------------------------------------------------------------

    async def request(self, request: Request, version: int) -> Response:
        """Have a Kafka request of this broker itself answered by the controller.

        Raises:
            ChangeError: there is none, or nobody knows what became of it.
        """
        broker = self._broker
        handler = API_TABLE[request.API_KEY]
        if not broker.controller.is_active:
            parts = encode_request(request, version, 0, None)
            frame = memoryview(b"".join(parts))[4:]
            answer = await self.frame(frame, "")
            if answer is not None:
                kind = response_class(handler.api_key)
                view = memoryview(answer)[4:]
                _, position = decode_response_header(view, flexible=version in kind.FLEXIBLE)
                return kind.decode(version, view, position)
        context = RequestContext(request.API_KEY, version, None, "")
        response = await handler.handle(broker, context, request)
        assert isinstance(response, Response)
        return response

    async def frame(self, frame: memoryview, client_host: str) -> bytes | None:
        """Have a client's request frame answered by the controller.

        Args:
            frame: the frame without its size.
            client_host: who sent it.

        Returns:
            The answer's frame with its size; None when this node is the controller by now.

        Raises:
            ChangeError: there is none, or nobody knows what became of it.
        """
        reply = await self._call(FORWARD, [client_host], [frame])
        if reply is None:
            return None
        (index,) = reply.fields
        with trio.move_on_after(APPLIED_SECONDS_MAX):
            await self._broker.quorum.wait_applied(index)
        return bytes(reply.attachments[0])

    async def operation(
        self, operation: str, fields: Any, *, timeout_s: float
    ) -> tuple[ErrorCode, Any]:
        """Ask the controller for something that is no Kafka request.

        Returns:
            Its error code and what it answered; on NOT_CONTROLLER nothing happened, on
            REQUEST_TIMED_OUT nobody knows.
        """
        try:
            with trio.fail_after(timeout_s):
                reply = await self._call(operation, fields, ())
                if reply is not None:
                    code, result, index = reply.fields
                    await self._broker.quorum.wait_applied(index)
                    return ErrorCode(code), result
                return await self._broker.operations.answer(operation, fields)
        except ChangeError as error:
            return error.error_code, None
        except trio.TooSlowError:
            return ErrorCode.REQUEST_TIMED_OUT, None

    async def _call(self, operation: str, fields: Any, attachments: Sequence[Any]) -> Reply | None:
        """Ask the controller; None when this node is it (or would be, if its disk worked)."""
        from .rpc import RpcLostError, RpcRemoteError, RpcTimeoutError, RpcUnreachableError

        broker, quorum = self._broker, self._broker.quorum
        deadline = trio.current_time() + CONTROLLER_SECONDS_MAX
        while True:
            leader_id = quorum.leader_id
            if quorum.is_leader or (broker.is_alone and quorum.failure is not None):
                return None
            if leader_id is not None and leader_id != broker.node_id:
                assert broker.interconnect is not None
                try:
                    return await broker.interconnect.peers.client(leader_id).call(
                        operation, fields, attachments, timeout_s=ANSWER_SECONDS_MAX
                    )
                except RpcUnreachableError:
                    pass
                except RpcRemoteError as error:
                    if error.kind != NOT_CONTROLLER:
                        raise ChangeError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None
                except (RpcLostError, RpcTimeoutError) as error:
                    raise ChangeError(
                        ErrorCode.REQUEST_TIMED_OUT,
                        f"nobody knows what became of the request: {error}",
                    ) from None
            if trio.current_time() >= deadline:
                raise NotControllerError(quorum.leader_id)
            with trio.move_on_after(_PAUSE_SECONDS):
                await quorum.wait_changed()

    # --- answering -----------------------------------------------------------------------------

    async def serve_forward(
        self, node_id: int, fields: Any, attachments: Sequence[memoryview]
    ) -> tuple[Any, Sequence[Any]]:
        """Answer a request that another node forwarded."""
        from .rpc import RpcFailure

        broker = self._broker
        if not broker.controller.is_active:
            raise RpcFailure(NOT_CONTROLLER, f"node {broker.node_id} is not the controller")
        try:
            (client_host,), (frame,) = fields, attachments
            handler = forwardable(frame)
            _, version, correlation_id = peek_api(frame)
            header, position = decode_request_header(
                frame, flexible=version >= handler.first_flexible_version
            )
            request = handler.request_class.decode(version, frame, position)
        except (MalformedMessageError, ValueError, TypeError) as error:
            raise RpcFailure("Malformed", f"node {node_id} forwards {error}") from None
        context = RequestContext(handler.api_key, version, header.client_id, str(client_host))
        response = await handler.handle(broker, context, request)
        assert isinstance(response, Response)
        answer = b"".join(encode_response(response, version, correlation_id))
        return [broker.quorum.applied_index], [answer]


def forwardable(frame: memoryview) -> Handler:
    """The row of the API of a forwarded frame.

    Raises:
        MalformedMessageError: controllers do not serve it, or not in that version.
    """
    api_key, version, _ = peek_api(frame)
    handler = API_TABLE.get(api_key)
    if handler is None or not handler.is_for_controller:
        raise MalformedMessageError(f"API key {api_key}, which is not for controllers")
    if not handler.first_version <= version <= handler.last_version:
        raise MalformedMessageError(f"version {version} of {handler.api_key.title}")
    return handler
