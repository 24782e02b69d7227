"""Run any number of seeds: `python -m tests.simulation.cluster --seeds 1000 --quorum`."""

import sys

from minikafka.lab.simulation.cluster.cluster import MODULE, Plan, run_seed
from tests.simulation.kit.command import run_seeds

if __name__ == "__main__":
    sys.exit(
        run_seeds(
            MODULE,
            lambda seed, options: run_seed(seed, Plan(has_quorum=options.quorum)),
            seeds=200,
            add_options=lambda parser: parser.add_argument(
                "--quorum", action="store_true", help="with a metadata quorum"
            ),
        )
    )
