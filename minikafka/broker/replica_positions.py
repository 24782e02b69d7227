"""Where followers are: what their positions mean for the partitions that this broker leads.

A position is compared with the log and counted, or what is wrong with it becomes news. One that
names a leader epoch that this broker has not heard of yet waits, for the metadata is on its way.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ..protocol.errors import ErrorCode
from ..replication import ReplicaFetchRefused, find_divergence
from ..replication.progress import UNKNOWN_OFFSET
from ..storage.errors import LogError
from ..storage.log import Log
from .partition import Partition
from .replica_sessions import PARTITIONS_PER_SESSION_MAX, Answer, Position, Served, Session

if TYPE_CHECKING:
    from .broker import Broker


def is_news(served: Served, log: Log) -> bool:
    """Whether the follower does not know the high watermark, or where the log starts."""
    return (
        log.high_watermark != served.told_high_watermark
        or log.log_start_offset != served.told_log_start
    )


def close(served: Served) -> None:
    """Serve nothing until the follower says again where it is."""
    served.detach()
    served.is_open = False


class Positions:
    """Takes the positions of followers."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def take(self, session: Session, position: Position, answer: Answer) -> None:
        """Note where a follower is; what is wrong with it becomes news."""
        slot = position.slot
        served = session.served.get(slot)
        if served is None:
            if len(session.served) >= PARTITIONS_PER_SESSION_MAX:
                answer.refuse(slot, ErrorCode.UNKNOWN_TOPIC_ID)
                return
            served = session.served[slot] = Served(session, position)
        served.position = position
        self.accept(session, served, answer)

    @staticmethod
    def lose(session: Session, slot: int) -> None:
        """A follower's log failed: as if it had lost everything, so it leaves the ISR now."""
        served = session.served.get(slot)
        partition = None if served is None else served.partition
        if served is not None and partition is not None and partition.is_leader:
            start = served.position.log_start_offset
            with suppress(ReplicaFetchRefused):  # then it is no replica any more
                partition.follower_fetched(
                    session.node_id, session.broker_epoch, UNKNOWN_OFFSET, start
                )

    def accept(self, session: Session, served: Served, answer: Answer) -> None:
        """Compare a position with the log: count it, or say what is wrong with it."""
        position = served.position
        session.unknown.pop(served, None)
        session.fresh.pop(served, None)
        session.behind.pop(served, None)
        served.is_open = True
        partition = served.partition
        if (
            partition is None
            or not partition.is_leader
            or partition.leader_epoch != position.leader_epoch
            or partition.log.is_offline is not None
        ):
            served.detach()
            partition = self._find(session, served, answer)
            if partition is None:
                return
        log = partition.log
        try:
            diverging = None
            if (
                position.last_fetched_epoch != log.leader_epochs.latest_epoch
                or not log.log_start_offset <= position.fetch_offset <= log.log_end_offset
            ):
                diverging = find_divergence(
                    log,
                    fetch_offset=position.fetch_offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                )
            if diverging is not None:
                close(served)
                offsets = (log.high_watermark, log.log_start_offset, log.log_end_offset)
                answer.add((position.slot, 0, *offsets, *diverging, False))
                return
            served.attach(partition)
            partition.follower_fetched(
                session.node_id,
                session.broker_epoch,
                position.fetch_offset,
                position.log_start_offset,
            )
        except (ReplicaFetchRefused, LogError) as error:
            close(served)
            code = ErrorCode(error.error_code)
            answer.refuse(position.slot, code, log.log_start_offset, log.log_end_offset)
            return
        if position.fetch_offset < log.log_end_offset:
            session.fresh[served] = None
        elif is_news(served, log) or log.high_watermark < log.log_end_offset:
            session.behind[served] = None

    def _find(self, session: Session, served: Served, answer: Answer) -> Partition | None:
        """The partition that a position means, if this broker leads it in that epoch."""
        broker, position = self._broker, served.position
        image = broker.image.partition(position.topic_id, position.partition)
        if image is None or position.leader_epoch > image.leader_epoch:
            session.unknown[served] = None
            return None
        partition = broker.replicas.by_id(position.topic_id, position.partition)
        refusal: ErrorCode | None = None
        if position.leader_epoch < image.leader_epoch:
            refusal = ErrorCode.FENCED_LEADER_EPOCH
        elif image.leader != broker.node_id:
            refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif partition is not None and partition.log.is_offline is not None:
            refusal = ErrorCode.KAFKA_STORAGE_ERROR
        if refusal is not None:
            close(served)
            answer.refuse(position.slot, refusal)
            return None
        if (
            partition is None
            or not partition.is_leader
            or partition.leader_epoch != position.leader_epoch
        ):
            session.unknown[served] = None  # the metadata is just being applied
            return None
        return partition
