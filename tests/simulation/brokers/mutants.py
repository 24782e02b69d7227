"""Guards of the broker's shells that are broken on purpose: whole brokers have to notice."""

from __future__ import annotations

from minikafka.broker.control.lifecycle import Lifecycle
from minikafka.broker.replicas.manager import ReplicaManager
from tests.simulation.kit.mutants import Mutant
from tests.simulation.replication_mutants import (
    early_acknowledgement,
    proposed_isr_only,
    read_above_high_watermark,
)

_open_logs = ReplicaManager.open_logs


def take_roles_at_once(self: ReplicaManager) -> None:
    _open_logs(self)
    self.is_active = True


MUTANTS = (
    Mutant(
        "a broker acts on what was decided about an earlier life",
        10,
        ((ReplicaManager, "open_logs", take_roles_at_once),),
    ),
    Mutant(
        "a leader that is cut off goes on",
        15,
        ((Lifecycle, "is_cut_off", False),),
        first=7,
    ),
    early_acknowledgement,
    proposed_isr_only,
    read_above_high_watermark,
)
"""The rest of `replication_mutants` takes whole brokers too long: see the README."""
