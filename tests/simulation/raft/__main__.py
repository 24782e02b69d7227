"""Run any number of seeds: `python -m tests.simulation.raft --seeds 1000`."""

from __future__ import annotations

import argparse
import logging
import sys
import time

from tests.simulation.raft.cluster import SimulationFailed, run_seed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.raft", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=0, help="where to begin")
    options = parser.parse_args()
    logging.disable()
    begin = time.perf_counter()
    simulated_s = committed = elections = crashes = 0.0
    failed: list[int] = []
    for seed in range(options.first, options.first + options.seeds):
        try:
            outcome = run_seed(seed)
        except SimulationFailed as error:
            sys.stderr.write(f"{error}\n")
            failed.append(seed)
            continue
        simulated_s += outcome.simulated_s
        committed += outcome.committed
        elections += outcome.elections
        crashes += outcome.crashes
    seconds = time.perf_counter() - begin
    sys.stdout.write(
        f"{options.seeds} seeds, {simulated_s:,.0f} simulated seconds in {seconds:.1f} s "
        f"({simulated_s / seconds:,.0f} per second): {committed:,.0f} entries committed, "
        f"{elections:,.0f} elections, {crashes:,.0f} crashes\n"
    )
    if failed:
        sys.stderr.write(f"{len(failed)} failed: {failed}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
