"""What a replica does about damage that recovery found in its log.

After an unclean stop the storage floor replaces damaged batches by empty ones and lists their
offsets (`Log.quarantined`). For the only replica of a partition that is best: what is intact
behind them stays. But with several replicas all logs must agree wherever their epochs do, and such
a batch has the right epoch: records missing here that others have would never be noticed. So:

- a follower cuts its log at the first damage, and fetches what was there from its leader;
- a leader with other replicas cuts it, too: it is elected with a damaged log only when all in-sync
  replicas have lost power, and what is behind the damage is then lost as any tail would be;
- the only replica keeps everything, and accepts its damage (`Log.accept_damage`).

Ask once, when the first role after opening the log begins. By then a restarted broker is in no
ISR where others remain, so nothing relies on what is cut.
"""

from __future__ import annotations

from typing import Protocol

from minikafka.storage.repair import QuarantinedRange

__all__ = ["DamagedLog", "cut_before_leading", "first_damage"]


class DamagedLog(Protocol):
    """The part of `minikafka.storage.log.Log` that is used here."""

    @property
    def quarantined(self) -> tuple[QuarantinedRange, ...]:
        """Ranges of offsets whose records were damaged, in order."""
        ...


def first_damage(log: DamagedLog) -> int | None:
    """Start of the first damaged range that was not accepted; None without any."""
    return log.quarantined[0].first_offset if log.quarantined else None


def cut_before_leading(log: DamagedLog, replica_count: int) -> int | None:
    """Where a new leader cuts its log; None if it keeps all of it.

    Afterwards: ``log.skip_lost``, then ``log.accept_damage``.
    """
    return first_damage(log) if replica_count > 1 else None
