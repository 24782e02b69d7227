"""What stands where replica fetch would be, in a broker without a cluster.

Such a broker follows nobody, and nobody follows it; it starts sooner without the machinery.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from .partition import Partition


class NoFetchers:
    """In place of `ReplicaFetchers`."""

    def set_rate(self, rate_bytes: float) -> None:
        """Nothing is fetched."""

    def follow(self, partition: Partition) -> None:
        """Only in a cluster there are leaders elsewhere."""
        raise AssertionError(f"{partition!r} is led by another broker, and there is none")

    def unfollow(self, partition: Partition) -> None:
        """It was not followed."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """There is nothing to do."""
        task_status.started()


class NoFollowers:
    """In place of `ReplicaServer`."""

    telling_followers: AbstractContextManager[None] = nullcontext()

    def set_rate(self, rate_bytes: float) -> None:
        """Nothing is sent."""

    def metadata_changed(self) -> None:
        """Nobody waits for it."""

    async def run(self) -> None:
        """There is nothing to do."""
