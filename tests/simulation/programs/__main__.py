"""Run any number of seeds of the example's programs: `python -m tests.simulation.programs`."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from functools import partial
from typing import Final

from minikafka.lab.simulation.kit.run import Outcome, SimulationFailed
from minikafka.testing import simulation
from tests.examples.test_simulated_shop import RIGHT, program
from tests.simulation.kit.command import run_seeds

MODULE: Final = "tests.simulation.programs"


def run_seed(seed: int, options: Namespace) -> Outcome:
    """Run all programs with a seed.

    Raises:
        SimulationFailed: one of them, or Kafka, broke a promise.
    """
    del options
    counts, faults, simulated_s = Counter[str](), Counter[str](), 0.0
    stories: list[str] = []
    for name, (play, guarantee) in RIGHT.items():
        report = simulation.run(partial(program, play=play), seed=seed, guarantee=guarantee)
        if not report.is_good:
            raise SimulationFailed(MODULE, seed, name, str(report.violations[0]), report.story)
        counts.update(report.counts)
        faults.update(type(one).__name__ for one in report.faults)
        simulated_s += report.simulated_s
        stories.append(f"{name}: {report.story}")
    return Outcome(seed, simulated_s, counts, lambda: "\n".join(stories), faults)


if __name__ == "__main__":
    sys.exit(run_seeds(MODULE, run_seed, seeds=20))
