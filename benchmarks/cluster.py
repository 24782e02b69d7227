"""A cluster under measurement."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from minikafka.testing import Cluster, NodeOptions

from .flame import watched
from .interpreters import prefix
from .load.cluster_admin import is_healthy, leaders, metadata_leader, prefer_first_replicas
from .processes import WATCHED, ProcessFailedError, check_stop

HEALTHY_SECONDS_MAX: Final = 60.0
_LOOK_AGAIN_SECONDS: Final = 0.02


class MeasuredCluster(Cluster):
    """A cluster with Kafka's defaults, in a directory in `folder`."""

    def __init__(self, folder: Path, brokers: int) -> None:
        super().__init__(
            [NodeOptions(prefix=prefix())] * brokers,
            directory=folder / "cluster",
            defaults={},
            environment=WATCHED,
            control=False,
        )

    @property
    def ready_seconds(self) -> float:
        """From the start of the brokers to the last ``ready`` line."""
        return max(node.process.ready_seconds for node in self.nodes.values())

    def wait_until_healthy(self) -> None:
        """Wait until every broker is alive and every replica in sync.

        Raises:
            ProcessFailedError: it takes longer than `HEALTHY_SECONDS_MAX`.
        """
        deadline = time.monotonic() + HEALTHY_SECONDS_MAX
        while not is_healthy(self.bootstrap, len(self.nodes)):
            if time.monotonic() > deadline:
                raise ProcessFailedError(f"not healthy after {HEALTHY_SECONDS_MAX} s")
            time.sleep(_LOOK_AGAIN_SECONDS)

    def leaders(self, topic: str) -> Sequence[int]:
        """The leader of each partition of a topic."""
        return leaders(self.bootstrap, topic)

    def metadata_leader(self) -> int:
        """The leader of the metadata quorum."""
        return metadata_leader(self.bootstrap)

    def prefer_first_replicas(self) -> None:
        """Make the first replica of every partition its leader again."""
        prefer_first_replicas(self.bootstrap)


@contextmanager
def cluster(folder: Path, brokers: int) -> Generator[MeasuredCluster]:
    """Run a healthy cluster during a block.

    Raises:
        ProcessFailedError: a broker did not stop cleanly after the block.
    """
    with MeasuredCluster(folder, brokers) as running:
        running.wait_until_healthy()
        with watched([node.pid for node in running.nodes.values()]):
            yield running
        for node, code in running.stop().items():
            check_stop(code, running.nodes[node].log_path)
