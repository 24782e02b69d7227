"""The command line of the simulations: run any number of seeds."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable

from minikafka.lab.simulation.kit.run import Outcome, SimulationFailed


def run_seeds(
    module: str,
    run_seed: Callable[[int, Namespace], Outcome],
    *,
    seeds: int,
    add_options: Callable[[ArgumentParser], object] = lambda _: None,
) -> int:
    """Run seeds as the arguments of this process say; returns the exit status.

    Args:
        module: what `python -m` runs.
        run_seed: runs one, with the arguments.
        seeds: how many, by default.
        add_options: adds arguments of this simulation.
    """
    parser = ArgumentParser(
        prog=f"python -m {module}", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=seeds, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--trace", action="store_true", help="print what happened in each")
    add_options(parser)
    options = parser.parse_args()
    logging.disable()
    begin, begin_cpu = time.perf_counter(), time.process_time()
    simulated_s, failed = 0.0, list[int]()
    counts, faults = Counter[str](), Counter[str]()
    for seed in range(options.first, options.first + options.seeds):
        try:
            outcome = run_seed(seed, options)
        except SimulationFailed as error:
            sys.stderr.write(f"{error}\n")
            failed.append(seed)
            continue
        simulated_s += outcome.simulated_s
        counts.update(outcome.counts)
        faults.update(outcome.faults)
        if options.trace:
            sys.stdout.write(f"{outcome.trace()}\nseed {seed}: {outcome.fingerprint}\n")
    seconds, cpu_s = time.perf_counter() - begin, time.process_time() - begin_cpu
    sys.stdout.write(
        f"{options.seeds} seeds, {simulated_s:,.0f} simulated seconds in {seconds:.1f} s "
        f"({simulated_s / cpu_s:,.0f} per second of processor): {_listed(counts)}\n"
    )
    if faults:
        sys.stdout.write(f"faults: {_listed(faults)}\n")
    if failed:
        sys.stderr.write(f"{len(failed)} failed: {failed}\n")
    return 1 if failed else 0


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
