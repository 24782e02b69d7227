"""All connections of one client, and the driver that runs plans over them.

A broker may have several connections (*lanes*): it answers one connection's requests in order, so a
heartbeat must not stand behind a fetch that waits for records, nor behind a join that waits for
other members.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Final, TypeVar

import trio

from minikafka.protocol.messages import metadata
from minikafka.protocol.schema import Request, Response
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import Address, Cluster
from minikafka_client.errors import ConnectionLostError, KafkaError
from minikafka_client.log_events import LogEvent
from minikafka_client.options import ConnectionConfig
from minikafka_client.plans.plan import ANY_BROKER, Ask, Call, CallAll, Pause, Plan, RetryPause
from minikafka_client.statistics import ConnectionStatistics
from minikafka_client.trio_api.background import Background
from minikafka_client.trio_api.connection import Connection, greet, open_stream

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")

CONTROL: Final = "control"
"""The lane for metadata, administration and everything else that is answered immediately."""


class _Lane:
    """One connection to one address: open, being opened, or to be opened when it is needed."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.address: Address | None = None
        self.opening = trio.Lock()
        self.failures = 0
        self.closed_until = 0.0


class Network:
    """Connects to brokers when they are needed, and finds them.

    Every metadata response updates ``cluster``. ``is_closing``: `close` was called, so what
    connections break with means nothing.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ConnectionConfig,
        background: Background,
        dice: Callable[[], float],
    ) -> None:
        self.cluster = cluster
        self.config = config
        self._background = background
        self._dice = dice
        self._reconnect = Backoff(
            config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, dice
        )
        self._retry = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, dice)
        self._lanes: dict[tuple[int | Address, str], _Lane] = {}
        self.is_closing = False
        self.connects = 0
        self.connect_failures = 0
        self.disconnects = 0

    # --- connections ---

    def connected(self, node: int, lane: str) -> Connection | None:
        known = self._lanes.get((node, lane))
        if known is None or known.connection is None or known.connection.is_closed:
            return None
        return known.connection

    def _open_connection(self, node: int | Address, lane: str) -> Connection | None:
        """What `connect` would return without waiting: its lock costs a turn of the scheduler."""
        self._background.check_open()
        known = self._lanes.get((node, lane))
        if known is None or known.connection is None or known.connection.is_closed:
            return None
        return known.connection if known.address == self._address(node) else None

    async def connect(self, node: int | Address, lane: str = CONTROL) -> Connection:
        """The open connection to a broker (node id or address), opened if necessary."""
        self._background.check_open()
        key = (node, lane)
        found = self._lanes.get(key)
        if found is None:
            found = self._lanes[key] = _Lane()
        address = self._address(node)
        about = _about(node, address, lane)
        async with found.opening:
            connection = found.connection
            if connection is not None and not connection.is_closed:
                if found.address == address:
                    return connection
                connection.close(ConnectionLostError(f"broker {node} has moved to {address}"))
            await trio.sleep_until(found.closed_until)
            try:
                found.connection = await self._open(found, address, about)
            except KafkaError as error:
                self.connect_failures += 1
                what = "a bootstrap server" if node == address else f"broker {node}"
                logger.warning(
                    "cannot connect to %s: %s",
                    what,
                    error,
                    extra=LogEvent.CONNECT_FAILED.about(**about, error=str(error)),
                )
                found.closed_until = trio.current_time() + self._reconnect.seconds(found.failures)
                found.failures += 1
                raise
            found.address = address
            found.failures = 0
            self.connects += 1
            logger.debug(
                "connected to %s:%d (%s)", *address, lane, extra=LogEvent.CONNECTED.about(**about)
            )
            return found.connection

    def _address(self, node: int | Address) -> Address:
        if not isinstance(node, int):
            return node
        broker = self.cluster.brokers.get(node)
        if broker is None:
            raise ConnectionLostError(f"broker {node} is not in the cluster's metadata")
        return broker.host, broker.port

    async def _open(self, lane: _Lane, address: Address, about: dict[str, object]) -> Connection:
        host, port = address
        with trio.move_on_after(self.config.socket_connection_setup_timeout_ms / 1000):
            stream = await open_stream(host, port, self.config.ssl_context)
            connection = Connection(stream, f"{host}:{port}", self.config)
            self._background.start_soon(self._run, lane, connection, about)
            try:
                await greet(connection, address, self.config.sasl)
            except BaseException:
                connection.close()
                # Its task closes the stream, unless the client was closed before it began.
                await trio.aclose_forcefully(stream)
                raise
            return connection
        raise ConnectionLostError(
            f"no connection to {host}:{port} within socket_connection_setup_timeout_ms "
            f"({self.config.socket_connection_setup_timeout_ms}); is it a Kafka broker?"
        )

    async def _run(self, lane: _Lane, connection: Connection, about: dict[str, object]) -> None:
        await connection.run()
        reason = connection.closed_because
        if lane.connection is connection and reason is not None and not self.is_closing:
            self.disconnects += 1
            logger.info(
                "disconnected: %s",
                reason,
                extra=LogEvent.DISCONNECTED.about(**about, error=str(reason)),
            )

    async def connect_any(self) -> Connection:
        """A connection to a broker that answers: an open one, a known one, a bootstrap server."""
        self._background.check_open()
        candidates: list[int | Address] = [*self.cluster.brokers]
        candidates.sort(key=lambda _node: self._dice())
        for node in [*candidates, *self.cluster.bootstrap]:
            found = self._lanes.get((node, CONTROL))
            if found is not None and found.connection and not found.connection.is_closed:
                return found.connection
        errors: list[KafkaError] = []
        for node in [*candidates, *self.cluster.bootstrap]:
            try:
                return await self.connect(node)
            except KafkaError as error:
                errors.append(error)
        if len(errors) == 1 or not any(error.is_retriable for error in errors):
            raise errors[0]
        listed = "; ".join(str(error) for error in errors)
        raise ConnectionLostError(f"no broker can be reached: {listed}") from errors[0]

    def statistics(self) -> ConnectionStatistics:
        lanes = self._lanes.values()
        age_s = trio.current_time() - self.cluster.updated_at
        return ConnectionStatistics(
            open_connections=sum(
                lane.connection is not None and not lane.connection.is_closed for lane in lanes
            ),
            connects=self.connects,
            connect_failures=self.connect_failures,
            disconnects=self.disconnects,
            metadata_age_s=age_s if age_s < inf else None,
        )

    def close(self) -> None:
        self.is_closing = True
        for lane in self._lanes.values():
            if lane.connection is not None:
                lane.connection.close()

    # --- calls and plans ---

    async def call(self, call: Call, lane: str = CONTROL) -> Response:
        """Send one request and wait for its response; metadata is taken in on the way."""
        node = self.cluster.resolve(call.node)
        if node == ANY_BROKER:
            connection = await self.connect_any()
        else:
            connection = self._open_connection(node, lane) or await self.connect(node, lane)
        version = connection.version_for(call.request, call.version_min, call.version_max)
        response = await connection.call(call.request, version, timeout_ms=call.timeout_ms)
        self._learn(call.request, response)
        return response

    def _learn(self, request: Request, response: Response) -> None:
        if isinstance(response, metadata.Response):
            assert isinstance(request, metadata.Request)
            is_complete = request.topics is None
            self.cluster.update(response, trio.current_time(), is_complete=is_complete)

    async def run_plan(
        self, start: Callable[[Cluster], Plan[_Result]], timeout_ms: float | None = None
    ) -> _Result:
        """Drive a plan; retries stop after ``timeout_ms`` (None: ``default_api_timeout_ms``)."""
        if timeout_ms is None:
            timeout_ms = self.config.default_api_timeout_ms
        deadline = trio.current_time() + timeout_ms / 1000
        plan = start(self.cluster)
        try:
            ask = next(plan)
            while True:
                try:
                    answer = await self._answer(ask, deadline)
                except KafkaError as error:
                    ask = plan.throw(error)
                else:
                    ask = plan.send(answer)
        except StopIteration as end:
            result: _Result = end.value
            return result
        finally:
            plan.close()

    async def _answer(self, ask: Ask, deadline: float) -> Any:
        match ask:
            case Call():
                return await self.call(ask)
            case CallAll(calls):
                return await self._call_all(calls)
            case Pause(seconds):
                await trio.sleep(seconds)
            case RetryPause(attempt, error):
                pause_s = self._retry.seconds(attempt)
                if trio.current_time() + pause_s > deadline:
                    raise error
                await trio.sleep(pause_s)
        return None

    async def _call_all(self, calls: Sequence[Call]) -> list[Response | KafkaError]:
        answers: list[Response | KafkaError | None] = [None] * len(calls)

        async def call_one(index: int, call: Call) -> None:
            try:
                answers[index] = await self.call(call)
            except KafkaError as error:
                answers[index] = error

        async with trio.open_nursery() as nursery:
            for index, call in enumerate(calls):
                nursery.start_soon(call_one, index, call)
        return [answer for answer in answers if answer is not None]


def _about(node: int | Address, address: Address, lane: str) -> dict[str, object]:
    return {
        "node_id": node if isinstance(node, int) else None,
        "address": f"{address[0]}:{address[1]}",
        "lane": lane,
    }
