"""A producer of ours that sends numbered values while something goes wrong, and what it is told."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

from minikafka.protocol.errors import ErrorCode
from minikafka_client import errors
from minikafka_client.producer_options import ProducerOptions
from minikafka_client.sync import Producer
from minikafka_client.sync.producer import Delivery

from ..ledger import Fate
from ..matrix import Acks, Cell, ProducerMode
from ..timeline import EventKind
from .stage import Stage
from .strikes import STRIKES

_TOO_FEW: Final = {ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
_PADDING: Final = [("padding", b"." * 200)]
"""So that each record is a batch of its own."""
_REQUEST_TIMEOUT_MS: Final = 2_000
_DELIVERY_TIMEOUT_MS: Final = 20_000
_ONLY_TRY_MS: Final = 1_500
_RESULT_TIMEOUT_S: Final = 60.0
_ABORTED_ONE_OF: Final = 4
_TRANSACTIONS_MAX: Final = 3
_OPEN_S: Final = 0.1
"""How long a transaction stays open that is to be aborted: a reader that shows it has the time."""


def producer_options(mode: ProducerMode, name: str) -> ProducerOptions:
    """The options of the client that make a producer of the matrix.

    Without retries a record's time is over before the first one would be due.
    """
    options = ProducerOptions(
        client_id=name,
        acks="all" if mode.acks is Acks.ALL else 1 if mode.acks is Acks.LEADER else 0,
        enable_idempotence=mode.is_idempotent,
        max_in_flight_requests_per_connection=mode.in_flight_max,
        linger_ms=0,
        batch_size=1,
        request_timeout_ms=_REQUEST_TIMEOUT_MS,
        delivery_timeout_ms=_DELIVERY_TIMEOUT_MS if mode.retries else _ONLY_TRY_MS,
        retry_backoff_ms=50 if mode.retries else 2 * _ONLY_TRY_MS,
        retry_backoff_max_ms=200 if mode.retries else 4 * _ONLY_TRY_MS,
        reconnect_backoff_max_ms=200,
        metadata_max_age_ms=1_000,
        max_block_ms=_DELIVERY_TIMEOUT_MS,
    )
    if mode.is_transactional:
        options["transactional_id"] = name
        options["transaction_timeout_ms"] = 10_000
    return options


class Sending:
    """Sends values r0, r1 and so on, and fills the ledger with their fates.

    Args:
        stage: where.
        mode: how.
        first: number of the first value.
    """

    def __init__(self, stage: Stage, mode: ProducerMode, first: int = 0) -> None:
        self._stage = stage
        self._mode = mode
        self._next = first
        self._pending: list[tuple[str, Delivery, float]] = []
        self._producer: Producer[bytes, bytes] = Producer(
            stage.target.bootstrap,
            **cast("ProducerOptions", stage.connection | producer_options(mode, stage.topic)),
        )
        self.sent_at: dict[str, float] = {}
        self.ack_s: list[float] = []

    @contextmanager
    def opened(self) -> Generator[None]:
        """The producer lives for a block; what it has sent is settled at its end."""
        with self._producer:
            yield
            self.settle()

    def send(self, count: int) -> list[str]:
        """Send some values without waiting; with transactions, into the open one."""
        values: list[str] = []
        for _ in range(count):
            value, partition = f"r{self._next}", self._next % self._stage.partitions
            self._next += 1
            note_sent(self._stage, value, partition)
            at = self.sent_at[value] = time.time()
            try:
                delivery = self._producer.send(
                    self._stage.topic, value.encode(), partition=partition, headers=_PADDING
                )
            except errors.KafkaError as error:
                self._told(value, error, None)
                continue
            self._pending.append((value, delivery, at))
            values.append(value)
        return values

    def name_values(self, count: int) -> list[str]:
        """Leave some values to another producer."""
        first, self._next = self._next, self._next + count
        return [f"r{number}" for number in range(first, self._next)]

    def calmly(self, count: int) -> None:
        """Send some values while nothing goes wrong, and measure how long each takes."""
        if self._mode.is_transactional:
            for size in _portions(self._stage, count):
                with self._transaction():
                    self.send(size)
            return
        for _ in range(count):
            began = time.perf_counter()
            self.send(1)
            self.settle()
            self.ack_s.append(time.perf_counter() - began)

    def under(self, cell: Cell, fault_number: int, size: int) -> None:
        """Send while a fault of the cell happens.

        Raises:
            CannotError: the fault cannot be brought about.
        """
        strike = STRIKES[cell.fault](self._stage, cell, self)
        self._stage.look()
        if self._mode.is_transactional:
            with self._transaction():
                for _ in strike:
                    self.send(size)
        else:
            for _ in strike:
                self.send(size)
            self.settle()
        self._stage.faults[fault_number] = cell.fault.value
        self._stage.wait_until_whole()
        self._stage.look()

    def settle(self) -> None:
        """Wait for the fate of everything sent; within a transaction, for its delivery."""
        pending, self._pending = self._pending, []
        for value, delivery, _ in pending:
            try:
                found = delivery.result(_RESULT_TIMEOUT_S)
            except (errors.KafkaError, TimeoutError) as error:
                self._told(value, error, delivery)
                continue
            if not self._mode.is_transactional:
                self._stage.ledger.fates[value] = Fate.TRUSTED
            where = f" at {found.offset}" if found.offset >= 0 else ""
            self._stage.note(
                "producer", "acknowledge", f"{value} is acknowledged{where}", record=value
            )
            self._note_too_few(value, delivery)

    def is_refused(self) -> bool:
        """Whether a value on its way was refused for want of replicas, at least for now."""
        for value, delivery, _ in self._pending:
            self._note_too_few(value, delivery)
        return bool(self._stage.ledger.too_few)

    def is_acknowledged(self) -> bool:
        """Whether a value on its way was acknowledged."""
        for _, delivery, _ in self._pending:
            with suppress(errors.KafkaError, TimeoutError):
                delivery.result(0)
                return True
        return False

    def _told(self, value: str, error: Exception, delivery: Delivery | None) -> None:
        code = getattr(error, "code", None)
        is_refused = code is ErrorCode.NOT_ENOUGH_REPLICAS
        self._stage.ledger.fates[value] = Fate.REFUSED if is_refused else Fate.UNKNOWN
        kind: EventKind = "refuse" if is_refused else "note"
        self._stage.note("producer", kind, f"{value}: {error}", record=value)
        if code in _TOO_FEW:
            self._stage.ledger.too_few.add(value)
        if delivery is not None:
            self._note_too_few(value, delivery)

    def _note_too_few(self, value: str, delivery: Delivery) -> None:
        last: Any = delivery[0].last_error
        if last is not None and last.code in _TOO_FEW:
            self._stage.ledger.too_few.add(value)

    @contextmanager
    def _transaction(self) -> Generator[None]:
        """Values that are sent in the block are one transaction, which is committed or aborted."""
        stage, first = self._stage, self._next
        number = len(stage.ledger.transactions)
        is_aborted = number % _ABORTED_ONE_OF == 1 or stage.dice.randrange(_ABORTED_ONE_OF) == 0
        fate = Fate.TRUSTED
        try:
            with self._producer.transaction():
                yield
                self.settle()
                if is_aborted:
                    time.sleep(_OPEN_S)
                    raise _AbortedOnPurpose
        except (_AbortedOnPurpose, errors.TransactionAbortableError):
            fate = Fate.REFUSED
        except (errors.FencedError, errors.CommitUnknownError):
            fate = Fate.UNKNOWN
            self._producer.reinitialize()
        values = [f"r{number}" for number in range(first, self._next)]
        stage.ledger.fates.update(dict.fromkeys(values, fate))
        stage.ledger.transactions.append(values)
        kind: EventKind = "abort" if fate is Fate.REFUSED else "commit"
        stage.note("producer", kind, f"{kind}s {', '.join(values)}")


class _AbortedOnPurpose(Exception):
    """So that readers have something to leave out."""


def note_sent(stage: Stage, value: str, partition: int, at: float | None = None) -> None:
    """Write down that a value is sent; the order counts in each partition on its own."""
    stage.ledger.sent.append((f"producer-{partition}", value))
    stage.note("producer", "send", f"sends {value}", record=value, at=at)


def _portions(stage: Stage, count: int) -> Iterator[int]:
    while count > 0:
        size = min(count, stage.dice.randint(1, _TRANSACTIONS_MAX))
        count -= size
        yield size
