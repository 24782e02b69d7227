"""A partition with three replicas, moved by hand: a log each, and the machines of their roles.

Records are only their leader epochs, see `PlainLog`. Nothing happens by itself: a test says who
leads, who fetches when, and what the controller answers, so that it reads as the ticket does.
"""

from collections.abc import Iterable

from minikafka import replication
from minikafka.protocol.errors import ErrorCode
from minikafka.storage.errors import OffsetOutOfRange
from tests.replication.histories import PlainLog

LAG_TIME_MAX_S = 30.0


class PartitionOfThree:
    """See the module's text. ``leader`` is the present one; a test may keep an older one."""

    def __init__(self, *histories: list[int], high_watermarks: Iterable[int] = (0, 0, 0)) -> None:
        """The logs of brokers 1, 2 and 3: the leader epochs of their records."""
        self.logs = {
            broker: PlainLog(list(epochs), high_watermark=high_watermark)
            for broker, (epochs, high_watermark) in enumerate(
                zip(histories, high_watermarks, strict=True), 1
            )
        }
        self.brokers = replication.EligibleBrokers({1: 11, 2: 12, 3: 13})
        self.followers: dict[int, replication.FollowerReplica] = {}
        self.leader: replication.LeaderReplica
        self.proposals: list[replication.ProposeIsr] = []
        self.partition_epoch = 0
        self.now = 0.0

    # --- the controller --------------------------------------------------------------------------

    def elect(
        self, broker: int, epoch: int, isr: tuple[int, ...], *, unaware: tuple[int, ...] = ()
    ) -> replication.LeaderReplica:
        """A broker becomes leader; all hear of it, except those that are `unaware`."""
        self.partition_epoch += 1
        log = self.logs[broker]
        self.followers.pop(broker, None)
        self.leader = replication.LeaderReplica(
            node_id=broker,
            replicas=(1, 2, 3),
            isr=isr,
            leader_epoch=epoch,
            partition_epoch=self.partition_epoch,
            log_end_offset=log.log_end_offset,
            high_watermark=log.high_watermark,
            brokers=self.brokers,
            min_insync=1,
            lag_time_max_s=LAG_TIME_MAX_S,
            now=self.now,
        )
        self.carry_out(self.leader.begin(self.now))
        for other in self.logs:
            if other != broker and other not in unaware:
                self.hear_of(other, broker, epoch)
        return self.leader

    def hear_of(self, broker: int, leader: int, epoch: int) -> None:
        """A broker learns who leads."""
        if broker in self.followers:
            self.followers[broker].leader_changed(leader, epoch)
        else:
            follower = replication.FollowerReplica(
                self.logs[broker], leader_id=leader, leader_epoch=epoch
            )
            follower.begin()
            self.followers[broker] = follower

    def decide_isr(self, *isr: int) -> None:
        """The metadata log has another ISR."""
        self.partition_epoch += 1
        effects = self.leader.image_changed(
            (1, 2, 3), isr, self.leader.leader_epoch, self.partition_epoch, self.now
        )
        self.carry_out(effects)

    # --- the leader ------------------------------------------------------------------------------

    def carry_out(self, effects: list[replication.LeaderEffect]) -> None:
        log = self.logs[self.leader.node_id]
        for effect in effects:
            match effect:
                case replication.BeginEpoch(epoch, start_offset):
                    log.leader_epochs.assign(epoch, start_offset)
                case replication.AdvanceHighWatermark(offset):
                    log.high_watermark = offset
                case replication.ProposeIsr():
                    self.proposals.append(effect)
                case _:
                    raise AssertionError(f"unexpected {effect}")

    def write(self, count: int = 1) -> None:
        log = self.logs[self.leader.node_id]
        log.append([self.leader.leader_epoch] * count)
        self.carry_out(self.leader.appended(log.log_end_offset, self.now))

    def answer(self, broker: int, asked: replication.FetchPosition) -> replication.FetchAnswer:
        """What the leader answers to a follower's fetch."""
        leader, log = self.leader, self.logs[self.leader.node_id]
        state = (log.high_watermark, log.log_start_offset, log.log_end_offset)
        if asked.leader_epoch < leader.leader_epoch:
            return replication.FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH)
        if asked.leader_epoch > leader.leader_epoch:
            return replication.FetchAnswer(ErrorCode.UNKNOWN_LEADER_EPOCH)
        try:
            diverging = replication.find_divergence(
                log, fetch_offset=asked.fetch_offset, last_fetched_epoch=asked.last_fetched_epoch
            )
        except OffsetOutOfRange:
            return replication.FetchAnswer(ErrorCode.OFFSET_OUT_OF_RANGE, *state)
        if diverging is not None:
            return replication.FetchAnswer(ErrorCode.NONE, *state, diverging)
        epoch = self.brokers.epochs[broker]
        self.carry_out(
            leader.follower_fetched(
                broker, epoch, asked.fetch_offset, asked.log_start_offset, self.now
            )
        )
        return replication.FetchAnswer(ErrorCode.NONE, log.high_watermark, *state[1:])

    # --- followers -------------------------------------------------------------------------------

    def fetch(self, broker: int, *, size: int = 100) -> replication.FetchAnswer:
        """One round of a follower: ask, get at most `size` records, do what has to be done."""
        asked = self.followers[broker].position()
        assert asked is not None, f"broker {broker} waits"
        answer = self.answer(broker, asked)
        self.take(broker, asked, answer, size=size)
        return answer

    def take(
        self,
        broker: int,
        asked: replication.FetchPosition,
        answer: replication.FetchAnswer,
        *,
        size: int = 100,
    ) -> None:
        """An answer arrives at a follower."""
        log = self.logs[broker]
        for effect in self.followers[broker].answered(asked, answer, self.now):
            match effect:
                case replication.TruncateTo(offset):
                    log.truncate_to(offset)
                case replication.RestartAt(offset):
                    log.restart_at(offset)
                case replication.FollowHighWatermark(offset):
                    log.high_watermark = min(offset, log.log_end_offset)
                case _:
                    raise AssertionError(f"unexpected {effect}")
        if answer.error_code is ErrorCode.NONE and answer.diverging is None:
            source = self.logs[self.leader.node_id]
            first = asked.fetch_offset - source.log_start_offset
            log.append(source.epochs[first : first + size])
            log.high_watermark = min(answer.high_watermark, log.log_end_offset)

    def catch_up(self, *brokers: int) -> None:
        """Followers fetch until they have everything, high watermark included."""
        for _ in range(4):
            for broker in brokers:
                self.fetch(broker)
