"""What a simulated leader does with produce requests, fetches, and the controller's answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.protocol.errors import ErrorCode
from minikafka.replication import (
    AdvanceHighWatermark,
    BeginEpoch,
    FetchAnswer,
    Freeze,
    LeaderEffect,
    ProposeIsr,
    ReplicaFetchRefused,
    Thaw,
    find_divergence,
)
from minikafka.storage.errors import LogError, OffsetOutOfRange
from minikafka.storage.log import Log
from minikafka.storage.results import EpochEndOffset
from tests.simulation.cluster.messages import Entry, Fetch, Fetched, Produce, Produced
from tests.simulation.cluster.replica_state import NOW_MS, READ_SIZE_BYTES_MAX, ReplicaState
from tests.simulation.raft.invariants import require

if TYPE_CHECKING:
    from tests.simulation.cluster.node import SimulatedNode

FETCH_WAIT_MAX_S = 3.0


class Leading(ReplicaState):
    """See the module's text."""

    def __init__(self, node: SimulatedNode, number: int, log: Log) -> None:
        super().__init__(node, number, log)
        self._parked: dict[int, Fetch] = {}
        self._commits: list[tuple[int, int, Produced, str]] = []
        self._is_sync_due = False

    def send_all_away(self) -> None:
        """Whoever waits has to look for another leader."""
        for sender, fetch in self._parked.items():
            self.answer(sender, fetch, FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        self._parked.clear()
        for _, client, produced, _ in self._commits:
            error = produced._replace(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.node.send(client, error)
        self._commits.clear()

    def produce(self, client: int, request: Produce) -> None:
        """A producer sends a batch."""
        leader, log = self.leader, self.log
        answer = Produced(self.number, request.correlation, ErrorCode.NONE, -1)
        error = ErrorCode.NONE
        if leader is None or leader.is_frozen:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif request.acks == -1 and leader.is_under_min_isr:
            error = ErrorCode.NOT_ENOUGH_REPLICAS
        if leader is None or error is not ErrorCode.NONE:
            self._reply(client, request, answer._replace(error_code=error))
            return
        try:
            result = log.append_as_leader(
                request.batch, leader_epoch=leader.leader_epoch, now_ms=NOW_MS
            )
        except LogError as refusal:
            code = ErrorCode(refusal.error_code)
            self._reply(client, request, answer._replace(error_code=code))
            return
        answer = answer._replace(base_offset=result.base_offset)
        if not result.is_duplicate:
            self.take_new_entries(
                [Entry(result.base_offset, result.last_offset, leader.leader_epoch, request.value)]
            )
            self.carry_out(leader.appended(log.log_end_offset, self.node.world.now))
            self._wake_fetchers()
            self.sync_soon()
        if request.acks == -1:
            self._wait_for_commit(result.last_offset, client, answer, request.value)
        else:
            self._reply(client, request, answer)
        self.set_timer()

    def sync_soon(self) -> None:
        """Sync what counts only on the disk (flush.messages=1), with what is appended meanwhile."""
        if self.node.truth.is_synced and not self._is_sync_due:
            self._is_sync_due = True
            dice = self.node.world.dice
            slowest_s = dice.choice((0.02, 0.02, 0.02, 1.5))
            self.node.after(dice.uniform(0.001, slowest_s), self._sync)

    def _sync(self) -> None:
        self._is_sync_due = False
        if self.node.replicas.get(self.number) is not self:
            return  # it was removed
        self.log.flush()
        if self.leader is not None:
            self.carry_out(self.leader.synced(self.log.recovery_point))

    def _wait_for_commit(self, last_offset: int, client: int, answer: Produced, value: str) -> None:
        if last_offset < self.log.high_watermark:
            self._acknowledge(client, answer, value)
        else:
            self._commits.append((last_offset, client, answer, value))

    def _acknowledge(self, client: int, answer: Produced, value: str) -> None:
        self.node.truth.acknowledged(self.number, answer.base_offset, value)
        self.node.send(client, answer)

    def _reply(self, client: int, request: Produce, answer: Produced) -> None:
        if request.acks:
            self.node.send(client, answer)

    def carry_out(self, effects: list[LeaderEffect]) -> None:
        for effect in effects:
            match effect:
                case AdvanceHighWatermark(offset):
                    self._advance(offset)
                case BeginEpoch(epoch, start_offset):
                    self.log.leader_epochs.assign(epoch, start_offset)
                case ProposeIsr():
                    self.node.propose(self.number, effect)
                case Freeze(next_leader):
                    self.node.world.note(
                        "{} freezes {} for {}", self.node, self.number, next_leader
                    )
                case Thaw():
                    self.node.world.note("{} thaws {}", self.node, self.number)

    def _advance(self, offset: int) -> None:
        leader = self.leader
        assert leader is not None
        self.log.high_watermark = offset
        self.node.truth.committed(
            self.node.node_id, self.number, leader.leader_epoch, offset, self.entries
        )
        waiting, self._commits = self._commits, []
        for commit in waiting:
            if commit[0] < offset:
                self._acknowledge(*commit[1:])
            else:
                self._commits.append(commit)
        self._wake_fetchers()

    def fetched_by(self, sender: int, fetch: Fetch) -> None:
        """A follower fetches."""
        leader = self.leader
        position = fetch.position
        if leader is None or position.leader_epoch != leader.leader_epoch:
            epoch = -1 if leader is None else leader.leader_epoch
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if leader is not None and position.leader_epoch < epoch:
                code = ErrorCode.FENCED_LEADER_EPOCH
            elif leader is not None:
                code = ErrorCode.UNKNOWN_LEADER_EPOCH
            self.answer(sender, fetch, FetchAnswer(code))
            return
        try:
            leader.check_follower(sender, fetch.broker_epoch)
            diverging = self._divergence(fetch)
        except ReplicaFetchRefused as refusal:
            self.answer(sender, fetch, FetchAnswer(refusal.error_code))
            return
        except OffsetOutOfRange:
            self.answer(sender, fetch, self._state_of_log(ErrorCode.OFFSET_OUT_OF_RANGE))
            return
        if diverging is not None:
            answer = self._state_of_log(ErrorCode.NONE)._replace(diverging=diverging)
            self.answer(sender, fetch, answer)
            return
        now = self.node.world.now
        self._parked.pop(sender, None)
        self.carry_out(
            leader.follower_fetched(
                sender,
                fetch.broker_epoch,
                position.fetch_offset,
                position.log_start_offset,
                now,
            )
        )
        self.set_timer()
        if self._has_news(fetch):
            self._serve(sender, fetch)
        else:
            self._parked[sender] = fetch
            self.node.after(FETCH_WAIT_MAX_S, self._end_wait, sender, fetch)

    def _divergence(self, fetch: Fetch) -> EpochEndOffset | None:
        require(
            fetch.position.last_fetched_epoch <= self.log.leader_epochs.latest_epoch,
            "known epochs",
            f"leader {self.node.node_id} is asked about epoch {fetch.position.last_fetched_epoch}, "
            f"and knows none after {self.log.leader_epochs.latest_epoch}",
        )
        return find_divergence(
            self.log,
            fetch_offset=fetch.position.fetch_offset,
            last_fetched_epoch=fetch.position.last_fetched_epoch,
        )

    def _has_news(self, fetch: Fetch) -> bool:
        return (
            fetch.position.fetch_offset < self.log.log_end_offset
            or fetch.high_watermark < self.log.high_watermark
        )

    def _wake_fetchers(self) -> None:
        for sender, fetch in list(self._parked.items()):
            if self._has_news(fetch):
                del self._parked[sender]
                self._serve(sender, fetch)

    def _end_wait(self, sender: int, fetch: Fetch) -> None:
        if self._parked.get(sender) is fetch:
            del self._parked[sender]
            self._serve(sender, fetch)

    def _serve(self, sender: int, fetch: Fetch) -> None:
        offset = fetch.position.fetch_offset
        answer = self._state_of_log(ErrorCode.NONE)
        read = self.log.read(
            offset,
            size_bytes_max=READ_SIZE_BYTES_MAX,
            upper_bound_offset=self.log.log_end_offset,
        )
        entries: tuple[Entry, ...] = ()
        if read.records is not None:
            answer = answer._replace(records=read.records.read())
            entries = tuple(self.entries_between(offset, read.next_offset))
        self.answer(sender, fetch, answer, entries)

    def _state_of_log(self, error_code: ErrorCode) -> FetchAnswer:
        log = self.log
        return FetchAnswer(error_code, log.high_watermark, log.log_start_offset, log.log_end_offset)

    def answer(
        self, sender: int, fetch: Fetch, answer: FetchAnswer, entries: tuple[Entry, ...] = ()
    ) -> None:
        self.node.send(sender, Fetched(self.number, fetch.correlation, answer, entries))

    def refused(self, proposal: ProposeIsr, error_code: ErrorCode) -> None:
        """The controller refused a proposal."""
        if self.leader is not None:
            self.carry_out(self.leader.isr_refused(proposal, error_code, self.node.world.now))
            self.set_timer()
