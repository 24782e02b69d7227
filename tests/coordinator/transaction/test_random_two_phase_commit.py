"""Random producers, zombies and failovers: a prepared transaction ends once, as decided."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from minikafka.coordinator.transaction import InitProducer, TransactionReply
from minikafka.protocol.errors import ErrorCode
from tests.coordinator.transaction.harness import P0, P1, TID, Coordinator

OK = ErrorCode.NONE
Producer = tuple[int, int]


class PreparedTransactions(RuleBasedStateMachine):
    """Attributes: the model.

    open_name: the producer whose transaction is open, however often it was recovered.
    is_recovered: another producer decides about it.
    decisions: of all transactions that have ended, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.coordinator = Coordinator(is_two_phase_commit_enabled=True)
        self.open_name: Producer | None = None
        self.is_recovered = False
        self.decisions: list[bool] = []
        self.zombies: list[Producer] = []
        self.known: set[Producer] = set()
        self.last_end: tuple[Producer, bool, TransactionReply] | None = None
        self.producer = self._granted(self._init(keeps_prepared=False))

    def _init(self, *, keeps_prepared: bool) -> TransactionReply:
        reply = self.coordinator.ask(
            InitProducer(TID, 1_000, is_two_phase=True, keeps_prepared=keeps_prepared)
        )
        assert reply.error_code is OK
        return reply

    def _granted(self, reply: TransactionReply) -> Producer:
        producer = (reply.producer_id, reply.producer_epoch)
        assert producer not in self.known, "two producers would be one"
        self.known.add(producer)
        return producer

    @rule(keeps_prepared=st.booleans())
    def take_over(self, keeps_prepared: bool) -> None:
        reply = self._init(keeps_prepared=keeps_prepared)
        found = (reply.ongoing_producer_id, reply.ongoing_producer_epoch)
        if self.open_name is not None and keeps_prepared:
            assert found == self.open_name
            self.is_recovered = True
        else:
            assert found == (-1, -1)
            if self.open_name is not None:
                self._ended(commits=False)
        self.zombies.append(self.producer)
        self.producer = self._granted(reply)
        self.last_end = None

    def _ended(self, *, commits: bool) -> None:
        self.decisions.append(commits)
        self.open_name = None
        self.is_recovered = False

    @rule(partition=st.sampled_from([P0, P1]))
    def write(self, partition: tuple[str, int]) -> None:
        code = self.coordinator.add(self.producer, partition, transaction_version=2)
        if self.is_recovered:
            assert code is ErrorCode.INVALID_TXN_STATE
            return
        assert code is OK
        self.open_name = self.open_name or self.producer
        self.last_end = None

    @rule(commits=st.booleans())
    def decide(self, commits: bool) -> None:
        reply = self.coordinator.end(self.producer, commits=commits, version=2)
        if self.open_name is None and commits:
            is_same = (reply.producer_id, reply.producer_epoch) == self.producer
            assert reply.error_code is not OK or is_same, "nothing happens, at most"
            return
        assert reply.error_code is OK
        if self.open_name is not None:
            self._ended(commits=commits)
        self.last_end = (self.producer, commits, reply)
        self.producer = self._granted(reply)

    @precondition(lambda self: self.last_end is not None)
    @rule()
    def say_it_again(self) -> None:
        assert self.last_end is not None
        producer, commits, reply = self.last_end
        assert self.coordinator.end(producer, commits=commits, version=2) == reply
        other = self.coordinator.end(producer, commits=not commits, version=2)
        assert other.error_code is not OK

    @precondition(lambda self: bool(self.zombies))
    @rule(choice=st.integers(0, 1_000), commits=st.booleans())
    def wake_up_as_a_zombie(self, choice: int, commits: bool) -> None:
        zombie = self.zombies[choice % len(self.zombies)]
        code = self.coordinator.add(zombie, P0, transaction_version=2)
        assert code is ErrorCode.PRODUCER_FENCED
        ended = self.coordinator.end(zombie, commits=commits, version=2)
        assert ended.error_code is ErrorCode.PRODUCER_FENCED

    @rule(days=st.integers(1, 30))
    def wait(self, days: int) -> None:
        if self.open_name is not None:  # else the id itself expires
            self.coordinator.pass_time(days * 86_400)

    @rule()
    def fail_over(self) -> None:
        self.coordinator.fail_over()

    @invariant()
    def every_transaction_has_ended_once_as_decided(self) -> None:
        assert [each.commits for each in self.coordinator.markers] == self.decisions


TestPreparedTransactions = PreparedTransactions.TestCase
TestPreparedTransactions.settings = settings(stateful_step_count=40)
