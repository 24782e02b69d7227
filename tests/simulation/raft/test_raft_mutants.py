"""Each guard of the protocol that is broken on purpose is noticed within a few seeds."""

from __future__ import annotations

import pytest

from tests.simulation.raft.mutants import MUTANTS, Mutant, seeds_to_kill


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.replacement.__name__)
def test_a_broken_guard_is_noticed(mutant: Mutant, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", "minikafka")
    killed = seeds_to_kill(mutant, mutant.seeds)
    assert killed is not None
    assert killed[1].name != "crash", killed[1]
