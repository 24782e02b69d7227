"""The connections of one blocking client, and the driver that runs plans over them."""

from __future__ import annotations

import math
import selectors
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from minikafka.protocol.messages import metadata
from minikafka.protocol.schema import Request, Response
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import Address, Cluster
from minikafka_client.core.wire import Answer
from minikafka_client.errors import (
    ClosedError,
    ConnectionLostError,
    KafkaError,
    UnsendableRequestError,
)
from minikafka_client.options import ConnectionConfig
from minikafka_client.plans.plan import ANY_BROKER, Ask, Call, CallAll, Pause, Plan, RetryPause
from minikafka_client.plans.rounds import refresh_metadata
from minikafka_client.sync.connection import BlockingConnection

_Result = TypeVar("_Result")

# Not select.select(): it refuses descriptors from 1,024 on, which a busy program soon has. poll()
# needs no descriptor of its own.
_Selector = getattr(selectors, "PollSelector", selectors.DefaultSelector)


def _wait_readable(
    connections: Sequence[BlockingConnection], timeout_s: float | None
) -> list[BlockingConnection]:
    with _Selector() as selector:
        for connection in connections:
            selector.register(connection.fileno(), selectors.EVENT_READ, connection)
        return [key.data for key, _ in selector.select(timeout_s)]


class BlockingNetwork:
    """Finds brokers, and connects to them on demand; metadata responses update ``cluster``."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConnectionConfig,
        dice: Callable[[], float],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.cluster = cluster
        self.config = config
        self.is_closed = False
        self._dice = dice
        self._sleep = sleep
        self._reconnect = Backoff(
            config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, dice
        )
        self._retry = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, dice)
        self._connections: dict[int | Address, tuple[Address, BlockingConnection]] = {}
        self._failures: dict[int | Address, tuple[int, float]] = {}

    def connect(self, node: int | Address) -> BlockingConnection:
        """The connection to a broker (node id or address); opens it if needed."""
        self._check_open()
        address = self._address(node)
        known = self._connections.get(node)
        if known is not None and not known[1].is_closed:
            if known[0] == address:
                return known[1]
            known[1].close()
        failures, closed_until = self._failures.get(node, (0, 0.0))
        pause_s = closed_until - time.monotonic()
        if pause_s > 0:
            self._sleep(pause_s)
        try:
            connection = BlockingConnection(address, self.config)
        except KafkaError:
            closed_until = time.monotonic() + self._reconnect.seconds(failures)
            self._failures[node] = (failures + 1, closed_until)
            raise
        self._failures.pop(node, None)
        self._connections[node] = (address, connection)
        return connection

    def _check_open(self) -> None:
        if self.is_closed:
            raise ClosedError("this client is closed; use it inside its `with` block")

    def _address(self, node: int | Address) -> Address:
        if not isinstance(node, int):
            return node
        broker = self.cluster.brokers.get(node)
        if broker is None:
            raise ConnectionLostError(
                f"broker {node} is not, or no longer, in the cluster's metadata"
            )
        return broker.host, broker.port

    def connect_any(self) -> BlockingConnection:
        """A connection to any broker: an open one, a known one, or a bootstrap server."""
        self._check_open()
        candidates: list[int | Address] = [*self.cluster.brokers]
        candidates.sort(key=lambda _node: self._dice())
        candidates += self.cluster.bootstrap
        for node in candidates:
            known = self._connections.get(node)
            if known is not None and not known[1].is_closed:
                return known[1]
        errors: list[KafkaError] = []
        for node in candidates:
            try:
                return self.connect(node)
            except KafkaError as error:
                errors.append(error)
        if len(errors) == 1 or not any(error.is_retriable for error in errors):
            raise errors[0]
        listed = "; ".join(str(error) for error in errors)
        raise ConnectionLostError(f"no broker can be reached: {listed}") from errors[0]

    def submit(
        self,
        node: int,
        request: Request,
        version_min: int,
        version_max: int,
        on_answer: Callable[[Answer], None],
    ) -> KafkaError | None:
        """Send a request; returns why it was not sent, or None if ``on_answer`` will be called."""
        try:
            connection = self.connect(node)
            version = connection.version_for(request, version_min, version_max)
        except KafkaError as error:
            return error
        try:
            connection.submit(request, version, on_answer)
        except UnsendableRequestError as error:
            return error
        except KafkaError:
            pass  # closing the connection has answered the request
        return None

    def close(self) -> None:
        self.is_closed = True
        for _address, connection in self._connections.values():
            connection.close()

    @property
    def has_unanswered(self) -> bool:
        return any(len(c) and not c.is_closed for _, c in self._connections.values())

    def wait(self, deadline: float | None) -> bool:
        """Deliver answers as they arrive; False if none did before ``deadline`` (None: no limit).

        A connection whose oldest request is overdue is closed, which answers its requests.
        """
        waiting = [c for _, c in self._connections.values() if len(c) and not c.is_closed]
        now = time.monotonic()
        times = [each for each in (deadline, *(c.deadline() for c in waiting)) if each is not None]
        until = min(times, default=None)
        timeout_s = None if until is None else max(0.0, until - now)
        if not waiting:
            if timeout_s is None:
                raise RuntimeError("nothing is in flight and nothing is due: a bug in the client")
            self._sleep(timeout_s)
            return False
        if len(waiting) == 1 and until == waiting[0].deadline():
            waiting[0].receive()  # it waits no longer than the deadline
            return True
        ready = [connection for connection in waiting if connection.has_received]
        if not ready:
            ready = _wait_readable(waiting, timeout_s)
        now = time.monotonic()
        overdue = [c for c in waiting if c not in ready and (c.deadline() or now) < now]
        for connection in [*ready, *overdue]:
            connection.receive()
        return bool(ready or overdue)

    def run_plan(self, start: Callable[[Cluster], Plan[_Result]]) -> _Result:
        """Drive a plan to its end; retries stop after ``default_api_timeout_ms``."""
        deadline = time.monotonic() + self.config.default_api_timeout_ms / 1000
        plan = start(self.cluster)
        try:
            ask = next(plan)
            while True:
                try:
                    answer = self._answer(ask, deadline)
                except KafkaError as error:
                    ask = plan.throw(error)
                else:
                    ask = plan.send(answer)
        except StopIteration as end:
            result: _Result = end.value
            return result
        finally:
            plan.close()

    def _answer(self, ask: Ask, deadline: float) -> Any:
        match ask:
            case Call():
                answer = self._call_all([ask])[0]
                if isinstance(answer, KafkaError):
                    raise answer
                return answer
            case CallAll(calls):
                return self._call_all(calls)
            case Pause(seconds):
                self._sleep(seconds)
            case RetryPause(attempt, error):
                pause_s = self._retry.seconds(attempt)
                if time.monotonic() + pause_s > deadline:
                    raise error
                self._sleep(pause_s)
        return None

    def _call_all(self, calls: Sequence[Call]) -> list[Answer]:
        """Send everything first, then receive, so that brokers work in parallel."""
        answers: list[Answer | None] = [None] * len(calls)
        connections: list[BlockingConnection] = []
        for index, call in enumerate(calls):
            try:
                connections.append(self._submit(call, index, answers))
            except KafkaError as error:
                answers[index] = error
        for connection in dict.fromkeys(connections):
            while len(connection) and not connection.is_closed:
                connection.receive()
        return [answer for answer in answers if answer is not None]

    def _submit(self, call: Call, index: int, answers: list[Answer | None]) -> BlockingConnection:
        node = self.cluster.resolve(call.node)
        connection = self.connect_any() if node == ANY_BROKER else self.connect(node)
        version = connection.version_for(call.request, call.version_min, call.version_max)

        def on_answer(answer: Answer) -> None:
            answers[index] = answer
            if isinstance(answer, Response):
                self._learn(call.request, answer)

        connection.submit(call.request, version, on_answer, timeout_ms=call.timeout_ms)
        return connection

    def _learn(self, request: Request, response: Response) -> None:
        if isinstance(response, metadata.Response):
            assert isinstance(request, metadata.Request)
            is_complete = request.topics is None
            self.cluster.update(response, time.monotonic(), is_complete=is_complete)


class StaleMetadata:
    """Collects topics, and refreshes their metadata when it is time."""

    def __init__(self, network: BlockingNetwork, retry: Backoff) -> None:
        self._network = network
        self._retry = retry
        self._topics: set[str] = set()
        self._due_at = math.inf
        self._next_at = 0.0
        self._attempts = 0
        self.last_error: KafkaError | None = None

    def want(self, topics: Iterable[str]) -> None:
        self._topics.update(topics)
        self._due_at = self._next_at

    @property
    def due_at(self) -> float | None:
        """When to call `refresh_if_due`; None if nothing is stale."""
        return None if self._due_at == math.inf else self._due_at

    def refresh_if_due(self) -> bool:
        """Refresh if it is time; returns whether it was."""
        if time.monotonic() < self._due_at:
            return False
        names = sorted(self._topics)
        self._due_at = math.inf
        before = self._network.cluster.updated_at
        try:
            self._network.run_plan(lambda _cluster: refresh_metadata(names))
            self.last_error = None
        except KafkaError as error:
            self.last_error = error
        now = time.monotonic()
        # Electing a leader takes a moment, so consecutive refreshes back off.
        self._attempts = 0 if now - before > 10.0 else self._attempts + 1
        self._next_at = now + self._retry.seconds(self._attempts)
        self._topics.clear()
        return True
