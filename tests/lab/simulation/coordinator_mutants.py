"""Coordinators of groups without one of their guards, as far as transactions are concerned."""

from __future__ import annotations

from minikafka.coordinator.group import offset_requests
from minikafka.protocol.errors import ErrorCode
from tests.simulation.kit.mutants import Mutant, always

zombies_may_commit = Mutant(
    "offsets in transactions are accepted from any member",
    20,
    ((offset_requests, "_check_transactional_commit", always(ErrorCode.NONE)),),
)
MUTANTS = (zombies_may_commit,)
