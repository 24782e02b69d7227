"""Run any number of seeds: `python -m tests.simulation.brokers --seeds 100`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.simulation.brokers.simulation import Outcome, SimulationFailed, run_seed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.brokers", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--first", type=int, default=0, help="where to begin")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long things go wrong")
    parser.add_argument("--trace", action="store_true", help="say what happened in each")
    options = parser.parse_args()
    begin = time.perf_counter()
    outcomes: list[Outcome] = []
    failed: list[int] = []
    for seed in range(options.first, options.first + options.seeds):
        try:
            outcome = run_seed(seed, options.seconds)
        except SimulationFailed as error:
            sys.stderr.write(f"{error}\n")
            failed.append(seed)
            continue
        outcomes.append(outcome)
        if options.trace:
            sys.stdout.write(f"{outcome.trace}\nseed {seed}: {outcome.fingerprint}\n")
    seconds = time.perf_counter() - begin
    simulated_s = sum(one.simulated_s for one in outcomes)
    faults: Counter[str] = Counter()
    for one in outcomes:
        faults.update(one.faults)
    sys.stdout.write(
        f"{options.seeds} seeds, {simulated_s:,.0f} simulated seconds in {seconds:.1f} s "
        f"({simulated_s / seconds:,.0f} per second): "
        f"{sum(one.acknowledged for one in outcomes):,} records acknowledged by all, "
        f"{sum(one.read for one in outcomes):,} read, "
        f"{sum(one.committed for one in outcomes):,} offsets committed; "
        f"{', '.join(f'{count} {kind}' for kind, count in sorted(faults.items()))}\n"
    )
    if failed:
        sys.stderr.write(f"{len(failed)} failed: {failed}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
