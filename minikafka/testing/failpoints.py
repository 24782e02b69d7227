"""Points in the broker's work at which a test can end, stop or fail it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import count
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self

from .process import ServerProcess

FailpointName = Literal[
    "controller.committed",
    "controller.decided",
    "group.assignment_stored",
    "group.generation_stored",
    "group.offsets_committed",
    "leader.elected",
    "log.rolled",
    "log.truncated",
    "produce.appended",
    "produce.committed",
    "produce.received",
    "replication.appended",
    "replication.confirmed",
    "replication.sending",
    "transaction.decided",
    "transaction.initialized",
    "transaction.marker_appended",
    "transaction.markers_written",
    "transaction.partition_added",
]

FAILPOINTS: Final[Mapping[FailpointName, str]] = {
    "produce.received": "a batch has arrived at the leader; nothing is stored",
    "produce.appended": "the leader has stored a batch; no follower and no producer knows",
    "produce.committed": "all in-sync replicas have a batch; the acks=all producer is not told",
    "replication.sending": "followers are about to get records; acks=1 producers have their answer",
    "replication.appended": "a follower has stored records; the leader does not know",
    "replication.confirmed": "a follower has said that it has records; it is not counted yet",
    "leader.elected": "a replica leads under a new epoch; there is no record of that epoch",
    "log.rolled": "a new segment has begun; neither synced nor in a checkpoint",
    "log.truncated": "a replica has cut its log where it differed from the leader's",
    "group.generation_stored": "the number of a generation is stored; no member is told",
    "group.assignment_stored": "who reads what is stored; no member is told",
    "group.offsets_committed": "offsets are committed; the member is not told",
    "transaction.initialized": "a producer's new epoch is stored; the producer is not told",
    "transaction.partition_added": "the coordinator has stored that a partition is in a "
    "transaction; its first batch is not stored",
    "transaction.decided": "the decision is stored; no partition has a marker",
    "transaction.marker_appended": "a partition's leader has stored a marker; the coordinator does "
    "not know",
    "transaction.markers_written": "partitions have their markers; the end is not stored",
    "controller.decided": "the controller has decided; nothing is stored",
    "controller.committed": "a decision is in the metadata log; the one who asked is not told",
}
"""What is the case at each point, in the order of a record's life."""

_TIMEOUT_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.005
_numbers = count(1)  # of this process: logs go on over restarts


def reached_line(name: str, number: int) -> str:
    """What a broker writes to its log when a test's failpoint acts."""
    return f"failpoint {name} of the test, number {number}"


class Target(Protocol):
    """A broker in a process of its own."""

    @property
    def process(self) -> ServerProcess:
        """The one that was started last."""
        ...

    def log(self) -> str:
        """All it has written, over all restarts."""
        ...

    def call(self, command: str, **arguments: Any) -> Any:
        """Have the process do something."""
        ...


class Failpoint:
    """A failpoint that a test has set; `minikafka.testing.Broker.failpoint` makes one.

    As a context manager it is removed at the end of the block.
    """

    def __init__(self, name: FailpointName, number: int, brokers: Sequence[Target]) -> None:
        self._name = name
        self._number = number
        self._line = f"{reached_line(name, number)}:"
        self._processes = {broker: broker.process for broker in brokers}

    def __repr__(self) -> str:
        return f"<failpoint {self._name}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    @property
    def hits(self) -> int:
        """How many times it has acted; also in brokers that it has ended."""
        return sum(broker.log().count(self._line) for broker in self._processes)

    def wait(self, timeout_s: float = _TIMEOUT_S) -> None:
        """Wait until it has acted: the broker is dead, stands still, or has failed.

        Raises:
            TimeoutError: it has not been reached within ``timeout_s``.
        """
        deadline = time.monotonic() + timeout_s
        while not self.hits or not all(map(self._is_over, self._processes)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._name} was not reached for {timeout_s:.0f} s")
            time.sleep(_LOOK_AGAIN_S)

    def _is_over(self, broker: Target) -> bool:
        """Whether a broker that was to die or to stand still does."""
        process, text = self._processes[broker], broker.log()
        if f"{self._line} kill" in text:
            return process.exit_code is not None
        return f"{self._line} pause" not in text or process.is_stopped

    def remove(self) -> None:
        """Let it act no more."""
        for broker, process in self._processes.items():
            if process.exit_code is None and not process.is_stopped:
                broker.call("remove_failpoint", number=self._number)


def arm(
    brokers: Sequence[Target],
    name: FailpointName,
    *,
    kill: bool,
    pause: bool,
    error: bool,
    times: int | None,
    skip: int,
) -> Failpoint:
    """Set a failpoint in some brokers.

    Raises:
        ValueError: there is no such point, or not exactly one thing is to happen.
    """
    if name not in FAILPOINTS:
        raise ValueError(f"there is no failpoint {name!r}; there are {', '.join(FAILPOINTS)}")
    wanted = {"kill": kill, "pause": pause, "error": error}
    actions = [word for word, is_wanted in wanted.items() if is_wanted]
    if len(actions) != 1:
        raise ValueError(f"failpoint({name!r}): choose one of kill, pause and error")
    action = actions[0]
    number = next(_numbers)
    for one in brokers:
        one.call("set_failpoint", number=number, name=name, action=action, times=times, skip=skip)
    return Failpoint(name, number, brokers)
