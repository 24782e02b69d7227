"""Each guard of the protocol that is broken on purpose is noticed within a few seeds."""

from __future__ import annotations

import pytest

from tests.simulation.kit.mutants import Mutant
from tests.simulation.raft.cluster import run_seed
from tests.simulation.raft.mutants import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_guard_is_noticed(mutant: Mutant, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", "minikafka")
    assert mutant.caught(run_seed).name != "crash"
