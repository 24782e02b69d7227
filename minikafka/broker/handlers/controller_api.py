"""Requests for the active controller that this node serves.

They come from other nodes, which forward them as their clients sent them (KIP-590), or from this
node itself. `control.forwarder` serves them through `ForwardedRequests`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.exceptions import MalformedMessageError
from ...protocol.frames import decode_request_header, encode_response, peek_api
from ...protocol.schema import Request, Response
from ...security.principal import BROKER, Principal
from ..control.request_context import RequestContext
from . import API_TABLE
from .throttle_time import set_throttle

if TYPE_CHECKING:
    from ..broker import Broker


class ForwardedRequests:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def serve(self, request: Request, version: int) -> Response:
        context = RequestContext(request.API_KEY, version, None, "", principal=BROKER)
        return await self._handle(context, request)

    async def serve_frame(self, frame: memoryview, client_host: str, principal: Principal) -> bytes:
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
        context = RequestContext(
            handler.api_key, version, header.client_id, client_host, principal=principal
        )
        quotas = self._broker.client_quotas
        if quotas is not None:
            # Its own node counts all but what only the controller can refuse.
            charge = quotas.charge(context.principal.name, header.client_id, len(frame))
            context = context._replace(charge=charge)
        response = await self._handle(context, request)
        if context.charge is not None:
            set_throttle(response, context.charge.throttle_ms)
        return b"".join(encode_response(response, version, correlation_id))

    async def _handle(self, context: RequestContext, request: Request) -> Response:
        handler = API_TABLE[context.api_key]
        response = await handler.serve(self._broker)(self._broker, context, request)
        assert isinstance(response, Response)
        return response
