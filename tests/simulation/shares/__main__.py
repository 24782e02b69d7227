"""Run any number of seeds: `python -m tests.simulation.shares --seeds 1000`."""

import sys

from tests.simulation.kit.command import run_seeds
from tests.simulation.shares.simulation import MODULE, run_seed

if __name__ == "__main__":
    sys.exit(run_seeds(MODULE, lambda seed, _: run_seed(seed), seeds=1000))
