"""Requests for the active controller that this node serves.

They come from other nodes, which forward them as their clients sent them (KIP-590), or from this
node itself. `control.forwarder` serves them through `ForwardedRequests`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.exceptions import MalformedMessageError
from ...protocol.frames import decode_request_header, encode_response, peek_api
from ...protocol.schema import Request, Response
from ..control.request_context import RequestContext
from . import API_TABLE

if TYPE_CHECKING:
    from ..broker import Broker


class ForwardedRequests:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def serve(self, request: Request, version: int) -> Response:
        return await self._handle(RequestContext(request.API_KEY, version, None, ""), request)

    async def serve_frame(self, frame: memoryview, client_host: str) -> bytes:
        """Answer a forwarded frame, which has no size prefix; the answer has one.

        Raises:
            MalformedMessageError: the request is not for controllers, or is malformed.
        """
        api_key, version, correlation_id = peek_api(frame)
        handler = API_TABLE.get(api_key)
        if handler is None or not handler.is_for_controller:
            raise MalformedMessageError(f"API key {api_key}, which is not for controllers")
        if not handler.first_version <= version <= handler.last_version:
            raise MalformedMessageError(f"version {version} of {handler.api_key.title}")
        header, position = decode_request_header(
            frame, flexible=version >= handler.first_flexible_version
        )
        request = handler.request_class.decode(version, frame, position)
        context = RequestContext(handler.api_key, version, header.client_id, client_host)
        response = await self._handle(context, request)
        return b"".join(encode_response(response, version, correlation_id))

    async def _handle(self, context: RequestContext, request: Request) -> Response:
        handler = API_TABLE[context.api_key]
        response = await handler.handle(self._broker, context, request)
        assert isinstance(response, Response)
        return response
