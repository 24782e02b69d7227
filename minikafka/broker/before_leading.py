"""What becomes of a log that lost something when its replica is to lead."""

from __future__ import annotations

import logging

from ..replication import cut_before_leading
from ..storage.log import Log

logger = logging.getLogger(__name__)


def settle_losses(log: Log, replica_count: int, leader_epoch: int, now_ms: int) -> None:
    """Make a log fit to lead: see `minikafka.replication.damage` and `Log.skip_lost`.

    Raises:
        StorageError: the disk failed; the log is offline.
    """
    damaged_from = cut_before_leading(log, replica_count)
    if damaged_from is not None:
        logger.error("%s: damaged at offset %d, cutting there", log.directory, damaged_from)
        log.truncate_to(damaged_from)
    lost = log.skip_lost(leader_epoch=leader_epoch, now_ms=now_ms)
    if lost:
        logger.error("%s: the last %d offsets are lost and stay empty", log.directory, lost)
    log.accept_damage()
