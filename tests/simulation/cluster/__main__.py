"""Run any number of seeds: `python -m tests.simulation.cluster --seeds 1000`."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter

from tests.simulation.cluster.cluster import Outcome, Plan, SimulationFailed, run_seed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.cluster", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=0, help="where to begin")
    parser.add_argument("--quorum", action="store_true", help="with a metadata quorum")
    options = parser.parse_args()
    plan = Plan(has_quorum=options.quorum)
    logging.disable()
    begin, begin_cpu = time.perf_counter(), time.process_time()
    total = Outcome()
    faults: Counter[str] = Counter()
    failed: list[int] = []
    for seed in range(options.first, options.first + options.seeds):
        try:
            outcome = run_seed(seed, plan)
        except SimulationFailed as error:
            sys.stderr.write(f"{error}\n")
            failed.append(seed)
            continue
        total.simulated_s += outcome.simulated_s
        total.committed += outcome.committed
        total.acknowledged += outcome.acknowledged
        total.epochs += outcome.epochs
        total.crashes += outcome.crashes
        total.forgiven += outcome.forgiven
        faults.update(outcome.faults)
    seconds = time.perf_counter() - begin
    cpu_seconds = time.process_time() - begin_cpu
    sys.stdout.write(
        f"{options.seeds} seeds, {total.simulated_s:,.0f} simulated seconds in {seconds:.1f} s "
        f"({total.simulated_s / cpu_seconds:,.0f} per second of CPU time): "
        f"{total.committed:,} batches committed, "
        f"{total.acknowledged:,} acknowledged by all, {total.epochs:,} leaders, "
        f"{total.crashes:,} crashes, {total.forgiven:,} losses that had to be\n"
    )
    if failed:
        sys.stderr.write(f"{len(failed)} failed: {failed}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
