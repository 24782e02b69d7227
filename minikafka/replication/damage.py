"""What a replica does about damage that recovery found in its log.

After an unclean stop the storage floor puts empty batches in the place of damaged ones, and names
their offsets (`Log.quarantined`). For the only replica of a partition that is best: what is intact
behind them stays. But with several replicas all logs have to agree wherever their epochs do, and
such a batch has the right epoch: nobody would ever notice that records are missing here which
others have. So:

- a follower cuts its log at the first damage, and fetches what was there from its leader;
- a leader with other replicas cuts it, too: it is elected with a damaged log only when all that
  were in sync have lost power, and what is behind the damage is then lost as any tail would be;
- the only replica keeps everything, and accepts its damage (`Log.accept_damage`).

Ask once, when the first role after the log was opened begins. By then a restarted broker is in no
ISR where others remain, so nobody counts on what is cut.
"""

from __future__ import annotations

from typing import Protocol

from minikafka.storage.results import QuarantinedRange

__all__ = ["DamagedLog", "cut_before_leading", "first_damage"]


class DamagedLog(Protocol):
    """What is asked of a log; `minikafka.storage.log.Log` is one."""

    @property
    def quarantined(self) -> tuple[QuarantinedRange, ...]:
        """Offsets whose records were damaged, in order."""
        ...


def first_damage(log: DamagedLog) -> int | None:
    """Where the first damage begins that nobody has accepted, None without any."""
    return log.quarantined[0].first_offset if log.quarantined else None


def cut_before_leading(log: DamagedLog, replica_count: int) -> int | None:
    """Where a new leader cuts its log, None if it keeps it.

    Afterwards: ``log.skip_lost``, then ``log.accept_damage``.
    """
    return first_damage(log) if replica_count > 1 else None
