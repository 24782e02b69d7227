"""Run many seeds: ``python -m tests.simulation.transactions --seeds 1000 --first 0``."""

from __future__ import annotations

import argparse
import sys

from tests.simulation.transactions.simulation import CALM_S, STORM_S, BrokenPromise, Simulation


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    asked = parser.parse_args()
    broken = 0
    transactions = 0
    for seed in range(asked.first, asked.first + asked.seeds):
        simulation = Simulation(seed)
        try:
            simulation.run()
        except BrokenPromise as error:
            broken += 1
            sys.stderr.write(f"{error}\n")
        transactions += len(simulation.history)
    seconds = asked.seeds * (STORM_S + CALM_S)
    sys.stdout.write(
        f"{asked.seeds} seeds, {seconds:.0f} simulated seconds, {transactions} transactions: "
        f"{broken} seeds broke a promise\n"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
