"""What partitions have in common: their host, their waiters, and what is wrong with a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..protocol.errors import ErrorCode
from ..replication import EligibleBrokers, ProposeIsr

if TYPE_CHECKING:
    from .partition import Partition


class PartitionError(Exception):
    """A request for one partition cannot be done; carries Kafka's error code."""

    def __init__(self, error_code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or error_code.name)
        self.error_code = error_code
        self.message = message


class Waiter(Protocol):
    """Somebody who wants to know that a partition has news (or another role)."""

    def notify(self, partition: Partition) -> None:
        """Called on the event loop, right after it happened; must not wait or raise."""
        ...


class PartitionHost(Protocol):
    """What all partitions of a broker share."""

    node_id: int
    brokers: EligibleBrokers
    lag_time_max_s: float
    is_rack_aware: bool
    is_retiring: bool
    frozen: dict[Partition, None]

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def propose_isr(self, partition: Partition, proposal: ProposeIsr) -> None:
        """Send a proposal to the active controller; a refusal goes to `Partition.isr_refused`."""
        ...

    def watch(self, partition: Partition) -> None:
        """Call `Partition.expire` when the leader's machine wants it."""
        ...
