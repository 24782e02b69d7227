"""Which brokers may be in an ISR, as this broker's leaders see it."""

from __future__ import annotations

from collections.abc import Iterable

from ..metadata.image import BrokerImage
from ..replication import EligibleBrokers


def take_standing(eligible: EligibleBrokers, brokers: Iterable[BrokerImage]) -> set[int]:
    """Take over who may be in an ISR; returns the brokers whose standing changed."""
    unfenced = [one for one in brokers if not one.is_fenced]
    epochs, before = {one.broker_id: one.broker_epoch for one in unfenced}, eligible.epochs
    stopping = {one.broker_id for one in unfenced if one.is_shutting_down}
    changed = {one for one in {**before, **epochs} if before.get(one) != epochs.get(one)}
    changed |= stopping ^ set(eligible.shutting_down)
    eligible.epochs, eligible.shutting_down = epochs, stopping
    return changed
