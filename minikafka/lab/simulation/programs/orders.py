"""The program that sends: records of an idempotent producer, or transactions of two or three.

About every fourth transaction is aborted. If the process is killed, the next one of the same
transactional id goes on with the next record; what became of the last ones it does not know.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any

from minikafka.lab.ledger import Fate
from minikafka.lab.simulation.coordinators.messages import Write
from minikafka.lab.simulation.coordinators.node import Layout
from minikafka.lab.simulation.producers import TOO_FEW
from minikafka.lab.simulation.programs.journal import Journal
from minikafka.lab.simulation.programs.member import Steps, Witness
from minikafka.lab.simulation.programs.process import Process, Signal, code_of
from minikafka.lab.simulation.programs.transactions import Transactions
from minikafka.lab.simulation.stage import Stage
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import encode_batch

TRANSACTIONAL_ID = "orders"
ABORTED = 0.25
SIZES = (2, 2, 3)
PAUSE_S = (0.005, 0.05)
PATIENCE_S = 0.08
"""How long a transaction waits for another record."""
TIMEOUT_MS = 5_000


class OrdersProducer(Process):
    """See the module's text.

    Attributes:
        is_zombie: another one has taken over; this one ends when it is fenced.
        ack_times_s: how long each acknowledgement took.
    """

    def __init__(
        self,
        stage: Stage,
        lane: int,
        name: str,
        layout: Layout,
        journal: Journal,
        witness: Witness,
        *,
        producer_id: int,
        is_transactional: bool,
    ) -> None:
        super().__init__(stage, lane, name)
        self.layout = layout
        self.journal = journal
        self.is_zombie = False
        self.ack_times_s: list[float] = []
        self._witness = witness
        self._producer_id = producer_id
        self._is_transactional = is_transactional
        self._sequences: dict[int, int] = {}
        self._queue: deque[tuple[int, str]] = deque()
        self._has_more = Signal()
        self._is_in_transaction = False
        self._open = 0
        self._codes: list[ErrorCode] = []
        self._settled = Signal()
        self._transactions = Transactions(
            self, layout.state, TRANSACTIONAL_ID, timeout_ms=TIMEOUT_MS
        )

    @property
    def pending_count(self) -> int:
        """Records whose fate is open."""
        return len(self._queue) + self._open + self._is_in_transaction

    def produce(self, value: str) -> None:
        """The program sends a record; its value is a letter and its number."""
        self._queue.append((int(value[1:]), value))
        self._has_more.fire()

    def take_waiting(self) -> list[str]:
        """What was not sent yet, for the one that goes on."""
        waiting = [value for _, value in self._queue]
        self._queue.clear()
        return waiting

    def kill(self) -> None:
        super().kill()
        self._queue.clear()
        self._open = 0
        self._is_in_transaction = False

    def start(self) -> None:
        self.journal.event(self.name, "start", "starts", is_up=True)
        self.spawn(self._run_transactions() if self._is_transactional else self._run())

    # --- records alone ----------------------------------------------------------------------------

    def _run(self) -> Steps:
        while True:
            while not self._queue:
                yield self._has_more
            index, value = self._queue.popleft()
            number = index % self.layout.orders
            sequence = self._sequences.get(number, 0)
            self._sequences[number] = sequence + 1
            batch = encode_batch(
                [(b"key", value.encode(), (), self.now_ms())],
                producer_id=self._producer_id,
                producer_epoch=0,
                base_sequence=sequence,
            )
            yield from self._hand_over(index, number, Write("", bytes(batch), value))

    def _hand_over(self, index: int, number: int, write: Write) -> Steps:
        """Send, and go on without the answer."""
        self.journal.event(self.name, "send", f"sends {write.value}", write.value)
        self._open += 1
        self.spawn(self._send(index, number, write))
        self._witness.reached(self, "sent", 0, index)
        if self.is_paused or not self.is_up:
            yield 0.0

    def _send(self, index: int, number: int, write: Write) -> Steps:
        value, began = write.value, self.world.now
        errors: list[ErrorCode] = []
        answer: Any = yield from self.insist(number, write, errors)
        code = code_of(answer)
        if not TOO_FEW.isdisjoint(errors):
            self.journal.ledger.too_few.add(value)
        self._open -= 1
        self._codes.append(code)
        if code is ErrorCode.NONE:
            self.ack_times_s.append(self.world.now - began)
            self.journal.event(self.name, "acknowledge", f"{value} is stored", value)
            if not self._is_transactional:
                self.journal.ledger.fates[value] = Fate.TRUSTED
            self._witness.reached(self, "acknowledged", number, index)
        else:
            self.journal.event(self.name, "refuse", f"{value}: {code.name}", value)
        self._settled.fire()

    def _wait_for_all(self) -> Steps:
        while self._open:
            yield self._settled

    # --- transactions -----------------------------------------------------------------------------

    def _run_transactions(self) -> Steps:
        is_ready = False
        while True:
            while not is_ready:
                reply = yield from self._transactions.init()
                is_ready = reply.error_code is ErrorCode.NONE
            while not self._queue:
                yield self._has_more
            self._is_in_transaction = True
            is_ready = yield from self._transaction()
            self._is_in_transaction = False
            if not is_ready and self.is_zombie:
                self.take_waiting()
                break  # another one has taken over

    def _transaction(self) -> Generator[Any, Any, bool]:
        """Send records and end the transaction; returns whether the next one may begin."""
        transactions, ledger, dice = self._transactions, self.journal.ledger, self.world.dice
        mine: list[str] = []
        ledger.transactions.append(mine)
        self._codes.clear()
        for _ in range(dice.choice(SIZES)):
            if not self._queue:
                yield PATIENCE_S
            if not self._queue:
                break
            index, value = self._queue.popleft()
            number = index % self.layout.orders
            mine.append(value)
            yield from self._hand_over(index, number, transactions.batch(number, [value]))
        yield from self._wait_for_all()
        yield dice.uniform(*PAUSE_S)
        is_whole = not any(self._codes)
        commits = is_whole and dice.random() >= ABORTED
        code = yield from transactions.end(commits=commits)
        if code is ErrorCode.NONE:
            ledger.fates.update(dict.fromkeys(mine, Fate.TRUSTED if commits else Fate.REFUSED))
            words = "commits" if commits else "aborts"
            text = f"{words} {', '.join(mine)}"
            self.journal.event(self.name, "commit" if commits else "abort", text)
        else:
            self.journal.event(self.name, "refuse", f"{code.name}: {', '.join(mine)}")
        return code is ErrorCode.NONE and is_whole
