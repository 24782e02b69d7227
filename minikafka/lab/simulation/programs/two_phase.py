"""A consumer that ends a transaction of Kafka and one of a database together (KIP-939).

As in ``examples/two_phase_commit``: write in a Kafka transaction and prepare it; in one transaction
of the database store the results, the position, and which prepared transaction is to be committed:
the decision; then commit it. Who takes over asks the database what was decided, and commits or
aborts what it finds prepared.

It also fences: before it asks, it makes itself the owner in the database, so that one that was
paused before its decision cannot decide any more. Kafka's epoch does not reach into the database.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from minikafka.lab.simulation.coordinators.messages import Polled
from minikafka.lab.simulation.programs.member import Member, Steps
from minikafka.lab.simulation.programs.transactions import Transactions
from minikafka.protocol.errors import ErrorCode


class TwoPhase(Member):
    """See the module's text."""

    def start(self) -> None:
        self._transactions: dict[int, Transactions] = {}
        self._tokens: dict[int, int] = {}
        super().start()

    def find_position(self, number: int) -> Generator[Any, Any, int | None]:
        """Decide what the one before has prepared; then the database knows the position."""
        yield from self.heartbeat()
        if number not in self.owned:
            return None
        self._tokens[number] = self.database.claim(number)
        transactions = Transactions(self, self.layout.state, f"bank-{number}", is_two_phase=True)
        self._transactions[number] = transactions
        reply = yield from transactions.init(keeps_prepared=True)
        if reply.error_code is not ErrorCode.NONE:
            return None
        if reply.ongoing_producer_id >= 0:
            found = (reply.ongoing_producer_id, reply.ongoing_producer_epoch)
            commits = self.database.decided.get(number) == found
            code = yield from transactions.end(commits=commits)
            words = "commits" if commits else "aborts"
            self.journal.event(
                self.name, "commit" if commits else "abort", f"{words} what was prepared"
            )
            if code is not ErrorCode.NONE:
                return None
        return self.database.position(number)

    def consume(self, number: int, before: int, polled: Polled) -> Steps:
        del before
        transactions = self._transactions[number]
        for record in polled.records:
            yield from self.work_on(number, record)
        values = [value for _, value in polled.records]
        code = yield from transactions.write(self.layout.results, values)
        is_done = code is ErrorCode.NONE
        if is_done:
            for record in polled.records:
                yield from self.done_with(number, record)
            is_done = yield from self._decide(number, transactions, polled)
        if not is_done and number in self.owned:
            self.owned[number] = None

    def _decide(
        self, number: int, transactions: Transactions, polled: Polled
    ) -> Generator[Any, Any, bool]:
        prepared = (transactions.producer_id, transactions.epoch)
        values = [value for _, value in polled.records]
        token = self._tokens[number]
        if not self.database.decide(number, token, polled.next_offset, values, prepared):
            return False
        yield from self.has_committed(number, polled.next_offset)
        code = yield from transactions.end(commits=True)
        return code is ErrorCode.NONE
