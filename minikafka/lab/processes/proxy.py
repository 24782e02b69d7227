"""Stands between clients and brokers, and loses requests and answers on command.

Clients get the proxy's address; in what brokers say of each other, their addresses are replaced by
those of the proxy, so that clients stay with it. To brokers it speaks TLS if they ask for it, for
all clients, and shows the client certificate if there is one; to clients it never does. SASL passes
through it: each client says itself who it is.
"""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

import trio
import trio.lowlevel

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.frames import (
    decode_request_header,
    decode_response_header,
    encode_response,
    peek_api,
)
from minikafka.protocol.messages import describe_cluster, fetch, find_coordinator, metadata, produce
from minikafka.protocol.schema import Response

Loss = Literal["request", "answer", "refusal", "death before", "death after", "death after answer"]
"""What becomes of the next Produce: it does not arrive; it arrives and its answer does not; it does
not arrive, and an error is the answer; its broker is killed before it arrives, or when it has, and
the client is not told, or is."""

_PRODUCE: Final = 0
_REWRITTEN: Final[Mapping[int, type[Response]]] = {
    0: produce.Response,
    1: fetch.Response,
    3: metadata.Response,
    10: find_coordinator.Response,
    60: describe_cluster.Response,
}
_FIRST_REWRITTEN: Final = {0: 10, 1: 16}
"""Earlier versions of these have no addresses."""
_SIZE_BYTES: Final = 4
_READ_BYTES: Final = 1 << 16
_REFUSED_AFTER_S: Final = 0.1
"""Until then, the next requests have come, too."""
_DEATHS_AFTER: Final = {"death after", "death after answer"}
_KILLED_AFTER_S: Final = 0.3
_START_TIMEOUT_S: Final = 10.0

_ToBroker = trio.SocketStream | trio.SSLStream[trio.SocketStream]


@dataclass
class _Arm:
    loss: Loss
    then: Callable[[], object] | None = None


@dataclass
class _Connection:
    """One of a client.

    Attributes:
        expected: api, version and correlation id of the answers that are to come.
        fatal: correlation ids whose answers are lost.
    """

    client: trio.SocketStream
    broker: _ToBroker
    address: str
    expected: deque[tuple[int, int, int]]
    fatal: set[int]


class Proxy:
    """Runs in a thread of its own until it is closed.

    Args:
        bootstrap: of the brokers.
        tls: what the brokers' listeners ask for; None is plain TCP.

    Attributes:
        bootstrap: for clients, who reach the brokers through the proxy.
    """

    def __init__(self, bootstrap: str, tls: ssl.SSLContext | None = None) -> None:
        self.bootstrap = ""
        self._tls = tls
        self._brokers = bootstrap.split(",")
        self._ports: dict[str, int] = {}
        self._arms: dict[str, _Arm] = {}
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=[self._run], daemon=True)
        self._thread.start()
        if not self._is_ready.wait(_START_TIMEOUT_S):
            raise RuntimeError("the proxy did not start")

    def arm(self, address: str, loss: Loss, then: Callable[[], object] | None = None) -> None:
        """Lose something of the next Produce for a broker.

        Args:
            address: ``HOST:PORT`` of the broker itself.
            loss: what.
            then: called in a thread, for a death: it kills the broker.
        """
        self._arms[address] = _Arm(loss, then)

    def disarm(self) -> None:
        """Lose nothing any more."""
        self._arms.clear()

    def broker_of(self, address: str) -> str:
        """The address of the broker behind one of the proxy's addresses."""
        port = int(address.rpartition(":")[2])
        return next((own for own, at in self._ports.items() if at == port), address)

    def close(self) -> None:
        """End all connections."""
        if self._token is not None:
            with contextlib.suppress(trio.RunFinishedError):  # it was closed before
                self._token.run_sync_soon(self._scope.cancel)
        self._thread.join()

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            async with trio.open_nursery() as self._nursery:
                ports = [await self._port(address) for address in self._brokers]
                self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
                self._is_ready.set()
                await trio.sleep_forever()

    async def _port(self, address: str) -> int:
        """The port for a broker; a new one if it has none yet."""
        if address not in self._ports:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            self._ports[address] = listener.socket.getsockname()[1]
            assert self._nursery is not None

            async def serve(client: trio.SocketStream) -> None:
                await self._serve(client, address)

            self._nursery.start_soon(trio.serve_listeners, serve, [listener])
        return self._ports[address]

    async def _serve(self, client: trio.SocketStream, address: str) -> None:
        try:
            async with client, await self._connect(address) as broker:
                one = _Connection(client, broker, address, deque(), set())
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._requests, one, nursery.cancel_scope)
                    nursery.start_soon(self._answers, one, nursery.cancel_scope)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except BaseExceptionGroup as group:
            rest = group.split((OSError, trio.BrokenResourceError, trio.ClosedResourceError))[1]
            if rest is not None:
                raise rest from None

    async def _connect(self, address: str) -> _ToBroker:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        plain = await trio.open_tcp_stream(host, int(port))
        if self._tls is None:
            return plain
        return trio.SSLStream(plain, self._tls, server_hostname=host, https_compatible=True)

    async def _requests(self, one: _Connection, scope: trio.CancelScope) -> None:
        async for frame in _Frames(one.client):
            api, version, correlation_id = peek_api(memoryview(frame))
            arm = self._arms.pop(one.address, None) if api == _PRODUCE else None
            is_answered = api != _PRODUCE or _produce(frame, version).acks != 0
            if arm is not None and arm.loss == "refusal":
                await self._refuse(one, frame, version, correlation_id)
                continue
            if arm is not None and arm.loss in {"request", "death before"}:
                await _call(arm)
                break
            if is_answered:
                one.expected.append((api, version, correlation_id))
            if arm is not None and arm.loss != "death after answer":
                one.fatal.add(correlation_id)
            await one.broker.send_all(len(frame).to_bytes(_SIZE_BYTES, "big") + frame)
            if arm is not None and arm.loss in _DEATHS_AFTER:
                await trio.sleep(_KILLED_AFTER_S)
                await _call(arm)
                break
            if arm is not None and not is_answered:  # with acks=0 there is no answer to lose
                break
        scope.cancel()

    async def _refuse(
        self, one: _Connection, frame: bytes, version: int, correlation_id: int
    ) -> None:
        await trio.sleep(_REFUSED_AFTER_S)
        while one.expected:
            await trio.lowlevel.checkpoint()
        asked = _produce(frame, version)
        refused = produce.Response(
            responses=[
                produce.TopicResponse(
                    topic_id=topic.topic_id,
                    name=topic.name,
                    partition_responses=[
                        produce.PartitionResponse(
                            index=each.index,
                            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                            base_offset=-1,
                        )
                        for each in topic.partition_data
                    ],
                )
                for topic in asked.topic_data
            ]
        )
        await one.client.send_all(_joined(encode_response(refused, version, correlation_id)))

    async def _answers(self, one: _Connection, scope: trio.CancelScope) -> None:
        async for frame in _Frames(one.broker):
            api, version, correlation_id = one.expected[0]
            if correlation_id in one.fatal:
                break
            kind = _REWRITTEN.get(api)
            if kind is not None and version >= _FIRST_REWRITTEN.get(api, 0):
                content = await self._rewritten(frame, kind, version)
            else:
                content = len(frame).to_bytes(_SIZE_BYTES, "big") + frame
            await one.client.send_all(content)
            one.expected.popleft()
        scope.cancel()

    async def _rewritten(self, frame: bytes, kind: type[Response], version: int) -> bytes:
        view = memoryview(frame)
        correlation_id, position = decode_response_header(view, flexible=version in kind.FLEXIBLE)
        answer: Any = kind.decode(version, view, position)
        places: list[Any] = []
        for name in ("brokers", "coordinators", "node_endpoints"):
            places += getattr(answer, name, ())
        if kind is find_coordinator.Response:
            places.append(answer)
        for place in places:
            if place.host and place.port > 0:
                place.port = await self._port(f"{place.host}:{place.port}")
                place.host = "127.0.0.1"
        return _joined(encode_response(answer, version, correlation_id))


async def _call(arm: _Arm) -> None:
    if arm.then is not None:
        await trio.to_thread.run_sync(arm.then)


def _produce(frame: bytes, version: int) -> produce.Request:
    view = memoryview(frame)
    _, position = decode_request_header(view, flexible=version in produce.Request.FLEXIBLE)
    return produce.Request.decode(version, view, position)


def _joined(parts: list[Any]) -> bytes:
    return b"".join(bytes(part) for part in parts)


class _Frames:
    """Frames of a stream, without their sizes; an end of the stream ends them."""

    def __init__(self, stream: _ToBroker) -> None:
        self._stream = stream
        self._received = bytearray()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        received = self._received
        while len(received) < (end := self._end()):
            more = await self._stream.receive_some(_READ_BYTES)
            if not more:
                raise StopAsyncIteration
            received += more
        frame = bytes(received[_SIZE_BYTES:end])
        del received[:end]
        return frame

    def _end(self) -> int:
        """Where the first frame ends, or at least its size does."""
        if len(self._received) < _SIZE_BYTES:
            return _SIZE_BYTES
        return _SIZE_BYTES + int.from_bytes(self._received[:_SIZE_BYTES], "big")
