"""The protocol against a real transaction coordinator; tasks and drivers die at every step."""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.spark.sink.simulation import Simulation

SEEDS = int(os.environ.get("MINIKAFKA_SINK_SEEDS", "20"))
"""MINIKAFKA_SINK_SEEDS=20000 takes an evening."""


@pytest.mark.parametrize("allows_two_phases", [True, False], ids=["two-phase", "one-phase"])
def test_every_row_is_seen_once_whichever_process_dies(allows_two_phases: bool) -> None:
    for seed in range(SEEDS):
        play(Random(seed), allows_two_phases=allows_two_phases, seed=seed)


def play(dice: Random, *, allows_two_phases: bool, seed: int) -> None:
    simulation = Simulation(dice, 4, allows_two_phases=allows_two_phases)
    try:
        simulation.play(400)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    finally:
        simulation.close()
