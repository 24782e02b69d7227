"""Transactional producers as clients are: they try again, go on after errors, crash, come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from minikafka.coordinator.transaction import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    TopicPartition,
    TransactionReply,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.testing.history.operations import Operation, Outcome, Send
from tests.simulation.transactions.world import PLACES, TIMEOUT_MS, Coordinator, Partition, World
from tests.storage.transactional import transactional_batch

_AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
_RETRY_S = 0.3
_PATIENCE_S = 4.0


@dataclass
class Tried:
    """One transaction, as its producer knows it.

    Attributes:
        values: what it wrote, by partition.
        outcome: "open", "asked to commit", "asked to abort", "committed", "aborted" or "fenced".
        process: which one.
        began_s: when it began.
        ended_s: when its end was known.
    """

    values: dict[TopicPartition, list[str]] = field(default_factory=dict)
    outcome: str = "open"
    process: str = ""
    began_s: float = 0.0
    ended_s: float = float("inf")

    def operation(self) -> Operation:
        """It as the history checker wants it."""
        sends = [Send(place, one) for place, values in self.values.items() for one in values]
        outcome = {"committed": Outcome.OK, "asked to commit": Outcome.INFO}.get(self.outcome)
        return Operation(self.process, outcome or Outcome.FAIL, sends, self.began_s, self.ended_s)


class Producer:
    """One process with a transactional id."""

    def __init__(
        self,
        world: World,
        coordinator: list[Coordinator],
        partitions: dict[TopicPartition, Partition],
        name: str,
        history: list[Tried],
        *,
        version: int,
    ) -> None:
        self._world = world
        self._coordinator = coordinator
        self._partitions = partitions
        self._name = name
        self._history = history
        self._version = version
        self.is_alive = True
        self._is_waiting = 0
        self.producer_id, self.epoch = -1, -1
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()
        self._tried = Tried()
        self._left = 0
        self._init()

    def _ask(
        self,
        send: Callable[[Callable[[Any], None]], None],
        done: Callable[[Any], None],
        give_up: Callable[[], None],
    ) -> None:
        """Send a request again and again until it is answered, or patience ends."""
        self._is_waiting += 1
        ticket = self._is_waiting
        began_s = self._world.now

        def answered(reply: Any) -> None:
            if not self.is_alive or self._is_waiting != ticket:
                return
            code = reply.error_code if isinstance(reply, TransactionReply) else reply
            if code in _AGAIN or code is ErrorCode.NOT_ENOUGH_REPLICAS:
                return  # the next attempt comes by itself
            self._is_waiting += 1
            done(reply)

        def attempt() -> None:
            if not self.is_alive or self._is_waiting != ticket:
                return
            if self._world.now - began_s > _PATIENCE_S and not self._world.is_calm:
                self._is_waiting += 1
                give_up()
                return
            # Without an epoch of its own a transaction is not safe from requests that are delayed
            # beyond the one before (KIP-890): older clients rely on the order of a connection.
            bring = self._world.send if self._version >= 2 else self._world.send_in_order
            bring(lambda: send(answered))
            self._world.after(_RETRY_S, attempt)

        attempt()

    def die(self) -> None:
        """The process ends; what it sent is still on its way."""
        self.is_alive = False

    # --- the life of a producer ------------------------------------------------------------------

    def _init(self, *, goes_on: bool = False) -> None:
        command = InitProducer(
            self._name,
            TIMEOUT_MS,
            self.producer_id if goes_on else -1,
            self.epoch if goes_on else -1,
        )

        def done(reply: TransactionReply) -> None:
            if reply.error_code is not ErrorCode.NONE:
                self._fenced()
                return
            self._take(reply)
            self._begin()

        self._ask(lambda answer: self._coordinator[0].ask(command, answer), done, self._fenced)

    def _take(self, reply: TransactionReply) -> None:
        if (reply.producer_id, reply.producer_epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch
            self._sequences.clear()

    def _fenced(self) -> None:
        """Another process took over, or nothing works: this one ends."""
        if self._tried.outcome == "open":
            self._tried.outcome = "fenced"
        self.die()

    def _begin(self) -> None:
        self._tried = Tried(
            process=f"{self._name}, producer {self.producer_id}/{self.epoch}",
            began_s=self._world.now,
        )
        self._history.append(self._tried)
        self._added.clear()
        self._left = self._world.dice.randint(1, 5)
        self._next()

    def _next(self) -> None:
        if not self._left:
            self._end(commits=self._world.dice.random() < 0.75)
            return
        self._left -= 1
        place = self._world.dice.choice(PLACES)
        if self._version < 2 and place not in self._added:
            command = AddPartitions(self._name, self.producer_id, self.epoch, (place,))

            def added(reply: TransactionReply) -> None:
                if reply.error_code is ErrorCode.NONE:
                    self._added.add(place)
                    self._produce(place)
                else:
                    self._fenced()

            self._ask(
                lambda answer: self._coordinator[0].ask(command, answer), added, self._give_up
            )
            return
        self._produce(place)

    def _produce(self, place: TopicPartition) -> None:
        world = self._world
        value = f"{self._name}-{self.producer_id}-{self.epoch}-{world.dice.getrandbits(40):x}"
        sequence = self._sequences.get(place, 0)
        batch = transactional_batch(
            value, producer_id=self.producer_id, epoch=self.epoch, sequence=sequence
        )
        self._tried.values.setdefault(place, []).append(value)

        def done(code: ErrorCode) -> None:
            if code is ErrorCode.NONE:
                self._sequences[place] = sequence + 1
                self._next()
            else:
                self._give_up()

        self._ask(
            lambda answer: self._partitions[place].produce(
                self._name, batch, answer, adds=self._version >= 2
            ),
            done,
            self._give_up,
        )

    def _give_up(self) -> None:
        """Something cannot be delivered: the transaction is aborted, and the epoch raised."""
        self._end(commits=False, recovers=True)

    def _end(self, *, commits: bool, recovers: bool = False) -> None:
        tried = self._tried
        tried.outcome = "asked to commit" if commits else "asked to abort"
        command = EndTransaction(self._name, self.producer_id, self.epoch, commits, self._version)

        def done(reply: TransactionReply) -> None:
            code = reply.error_code
            self._world.say(
                f"{self._name} {self.producer_id}/{self.epoch}: {tried.outcome}: {code.name}"
            )
            if code is ErrorCode.NONE:
                tried.outcome = "committed" if commits else "aborted"
                tried.ended_s = self._world.now
                if self._version >= 2:
                    self._take(reply)
                if recovers:
                    self._init(goes_on=True)
                else:
                    self._begin()
            elif code in (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE):
                tried.outcome = "aborted" if not commits else "asked to commit"
                self._init(goes_on=True)
            else:
                self._fenced()

        self._ask(lambda answer: self._coordinator[0].ask(command, answer), done, self._fenced)
