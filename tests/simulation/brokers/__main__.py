"""Run any number of seeds: `python -m tests.simulation.brokers --seeds 100`."""

import sys

from tests.simulation.brokers.simulation import FAULT_SECONDS, MODULE, run_seed
from tests.simulation.kit.command import run_seeds

if __name__ == "__main__":
    sys.exit(
        run_seeds(
            MODULE,
            lambda seed, options: run_seed(seed, options.seconds),
            seeds=20,
            add_options=lambda parser: parser.add_argument(
                "--seconds", type=float, default=FAULT_SECONDS, help="how long things go wrong"
            ),
        )
    )
