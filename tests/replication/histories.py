"""Logs that leaders of one partition left behind, as lists of epochs; for divergence tests."""

from minikafka.storage.leader_epochs import EpochEndOffset, LeaderEpochCache
from minikafka.storage.repair import QuarantinedRange


class PlainLog:
    """A log in which only the leader epoch of each record matters.

    Attributes:
        epochs: Leader epoch of each record; the first has offset `log_start_offset`.
        leader_epochs: What a real log knows of them.
        log_start_offset: First offset.
        high_watermark: First offset that is not known to be committed.
        quarantined: Offsets whose records were damaged.
    """

    def __init__(
        self, epochs: list[int], *, log_start_offset: int = 0, high_watermark: int = 0
    ) -> None:
        self.epochs = epochs
        self.log_start_offset = log_start_offset
        self.high_watermark = high_watermark
        self.quarantined: tuple[QuarantinedRange, ...] = ()
        self.leader_epochs = LeaderEpochCache()
        for index, epoch in enumerate(epochs):
            self.leader_epochs.assign(epoch, log_start_offset + index)

    @property
    def log_end_offset(self) -> int:
        return self.log_start_offset + len(self.epochs)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    @property
    def last_epoch(self) -> int:
        return self.leader_epochs.latest_epoch

    def append(self, epochs: list[int]) -> None:
        for epoch in epochs:
            self.leader_epochs.assign(epoch, self.log_end_offset)
            self.epochs.append(epoch)

    def truncate_to(self, offset: int) -> None:
        del self.epochs[max(0, offset - self.log_start_offset) :]
        self.leader_epochs.truncate_from_end(self.log_end_offset)
        self.high_watermark = min(self.high_watermark, self.log_end_offset)

    def restart_at(self, offset: int) -> None:
        self.epochs.clear()
        self.leader_epochs.clear()
        self.log_start_offset = self.high_watermark = offset
