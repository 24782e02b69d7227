"""Run any number of seeds: `python -m tests.simulation.groups --seeds 1000`."""

import sys

from tests.simulation.groups.simulation import MODULE, run_seed
from tests.simulation.kit.command import run_seeds

if __name__ == "__main__":
    sys.exit(run_seeds(MODULE, lambda seed, _: run_seed(seed), seeds=1000))
