"""What a claim allows is shown in its cells: each one in ``make lab-shown``, some of them here."""

from __future__ import annotations

import pytest

from minikafka.lab.matrix import Cell
from minikafka.lab.simulation.engine import SimulationEngine
from tests.lab.shown import FAULTS_MAX, allowed, show

SOME = allowed()[::16]


@pytest.mark.parametrize(("cell", "what"), SOME, ids=[f"{cell}-{what}" for cell, what in SOME])
def test_what_can_happen_is_shown_with_few_faults(cell: Cell, what: str) -> None:
    found = show(SimulationEngine(), cell, what)
    assert found is not None
    assert found.faults <= FAULTS_MAX
