"""Why a request to another node has no answer."""

from __future__ import annotations


class RpcProtocolError(Exception):
    """The other side does not speak this protocol; the connection ends."""


class RpcError(Exception):
    """A request to another node has no answer."""


class RpcLostError(RpcError):
    """There is no connection, or it ended before the answer came: the outcome is unknown."""


class RpcUnreachableError(RpcLostError):
    """There is no connection, and none could be made: the request was not sent."""


class RpcTimeoutError(RpcError):
    """No answer came in time: the outcome is unknown."""


class RpcBusyError(RpcError):
    """Too many requests wait for answers from that node already."""


class RpcRemoteError(RpcError):
    """The other node refused; ``kind`` is a short name for the reason."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class RpcMalformedError(RpcError):
    """The answer is malformed: the outcome is unknown."""


class RpcFailure(Exception):
    """Raised by a handler: the asking side gets an `RpcRemoteError` with the same words."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message
