"""The servers that the parts of a suite share, so that each is started and warmed once.

One broker of each side runs first; when a part asks for clusters, the single brokers end and three
nodes of each side start. A side that cannot run here is not there, and `Stage.absent` says why.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from minikafka.testing.brokers import LongTurnError

from ..cluster import cluster
from ..peers import APACHE, LIBRDKAFKA, OURS
from ..peers.apache_cluster import ApacheCluster
from ..peers.apache_kafka import HEAP_MB, apache_kafka
from ..processes import (
    ProcessFailedError,
    broker,
    cpu_seconds,
    resident_bytes,
    server_of,
    user_seconds,
)
from ..workload import touch_memory

NODES: Final = 3
AGREES: Final = 0.05
WARM_UPS_MAX: Final = 8
WARM_UP_SECONDS_MAX: Final = 40.0
_TOUCHED_BYTES: Final = 2_000_000_000


def _never(node: int) -> None:
    raise ProcessFailedError(f"node {node} cannot be killed or started here")


@dataclass(frozen=True)
class Served:
    """One broker, or a cluster.

    Attributes:
        name: of the side.
        bootstrap: where clients begin.
        find_pids: returns the processes that run now.
        kill: ends a node with SIGKILL.
        start: starts a node again, without waiting for it.
    """

    name: str
    bootstrap: str
    find_pids: Callable[[], Sequence[int]]
    kill: Callable[[int], None] = _never
    start: Callable[[int], None] = _never

    def cpu_seconds(self) -> float:
        """Processor time that its processes have used."""
        return sum(cpu_seconds(pid) for pid in self.find_pids())

    def user_seconds(self) -> float:
        """The part of it in user mode, to a hundredth of a second."""
        return sum(user_seconds(pid) for pid in self.find_pids())

    def resident_bytes(self) -> int:
        """Memory of its processes."""
        return sum(resident_bytes(pid) for pid in self.find_pids())


def absent_peers(names: Sequence[str] = (APACHE, LIBRDKAFKA)) -> dict[str, str]:
    """Which of these peers cannot run here, and why, in a line."""
    found: dict[str, str] = {}
    for name in names:
        reason = _no_apache() if name == APACHE else _no_librdkafka()
        if reason is not None:
            found[name] = reason
    return found


def _no_apache() -> str | None:
    try:
        from tests.peers import apache_kafka as peer
        from tests.peers import java_runtime
    except ImportError as error:
        return f"tests/peers, which starts it, cannot be imported ({error})"
    del peer
    missing = java_runtime.missing()
    if missing is not None:
        return missing
    try:
        java_runtime.jars()
    except RuntimeError as error:
        return "Maven cannot fetch its jars: " + str(error).partition("\n")[0]
    return None


def _no_librdkafka() -> str | None:
    try:
        import confluent_kafka  # noqa: F401 - only to see whether it is there
    except ImportError as error:
        return f"the package confluent-kafka is not installed ({error})"
    return None


@dataclass(kw_only=True)
class Stage:
    """The servers of a suite.

    Attributes:
        folder: an empty one, for their data.
        scale: factor for counts.
        say: reports progress.
        absent: the peers that are not here, by name, with the reason; grows if one does not start.
        notes: gets what the report has to say about the servers.
        names: of the sides that are started.
        warm_up: for one broker and for a cluster: how to find out how fast a side is.
    """

    folder: Path
    scale: float
    say: Callable[[str], None]
    absent: dict[str, str]
    notes: list[str] = field(default_factory=list[str])
    names: Sequence[str] = (OURS, APACHE)
    warm_up: Callable[[Served, int], float] | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _sides: dict[int, dict[str, Served]] = field(default_factory=dict[int, dict[str, Served]])
    _topics: int = 0

    def sides(self, nodes: int = 1) -> dict[str, Served]:
        """The sides that can run here, warm; servers of another number of nodes end first."""
        if nodes not in self._sides:
            self.close()
            folder = self.folder / f"nodes-{nodes}"
            folder.mkdir()
            touch_memory(folder / "touched", round(_TOUCHED_BYTES * min(1.0, self.scale)))
            self._sides[nodes] = self._start(folder, nodes)
            for side in self._sides[nodes].values():
                self._warm(side, nodes)
        return self._sides[nodes]

    def topic(self) -> str:
        """The name of a new topic."""
        self._topics += 1
        return f"suite-{self._topics}"

    def close(self) -> None:
        """Stop the servers that run."""
        self._sides.clear()
        self._stack.close()

    def _start(self, folder: Path, nodes: int) -> dict[str, Served]:
        single = nodes == 1
        self._stack.enter_context(long_turns_noted(self.notes))
        self.say(f"starting {OURS}, {nodes} node{'s' * (not single)}")
        ours = one_of_ours(folder) if single else three_of_ours(folder, nodes)
        found = {OURS: self._stack.enter_context(ours)}
        if APACHE in self.names and APACHE not in self.absent:
            self.say(f"starting {APACHE}, {nodes} node{'s' * (not single)}")
            theirs = one_of_apache(folder) if single else three_of_apache(folder, nodes)
            try:
                found[APACHE] = self._stack.enter_context(theirs)
            except Exception as error:  # noqa: BLE001 - whatever it is, the report names it
                reason = " ".join(str(error).split())[:300]
                self.absent[APACHE] = f"it did not start: {reason}"
        return found

    def _warm(self, side: Served, nodes: int) -> None:
        if self.warm_up is None or LIBRDKAFKA in self.absent:
            return
        measure = self.warm_up
        self.say(f"warming up {side.name}")
        heap = f", {HEAP_MB} MB of heap for each node" if side.name == APACHE else ""
        text = warm(lambda: measure(side, nodes), WARM_UPS_MAX, WARM_UP_SECONDS_MAX)
        self.notes.append(f"{side.name}, {nodes} node{'s' * (nodes > 1)}{heap}: {text}.")


def warm(
    measure: Callable[[], float],
    runs_max: int,
    seconds_max: float = math.inf,
    now: Callable[[], float] = time.monotonic,
) -> str:
    """Repeat a measurement until two in a row agree within 5 per cent; returns what came of it.

    Args:
        measure: returns how fast it was.
        runs_max: when to give up, at least 2.
        seconds_max: the same; the second run is done in any case.
        now: a clock, in seconds.
    """
    started = now()
    last = measure()
    apart, runs = 0.0, 1
    for runs in range(2, runs_max + 1):
        rate = measure()
        apart = abs(rate - last) / last
        if apart <= AGREES:
            return f"warm after {runs} runs, the last two {apart:.1%} apart"
        last = rate
        if now() - started > seconds_max:
            break
    return (
        f"not warm: no two runs in a row of {runs} agreed within {AGREES:.0%}, "
        f"the last two were {apart:.1%} apart"
    )


@contextmanager
def long_turns_noted(notes: list[str]) -> Generator[None]:
    """Brokers that end in a block may have kept their clients waiting: a note, not a failure.

    What a block returns has to be returned after it.
    """
    try:
        yield
    except LongTurnError as error:
        notes.append(" ".join(str(error).split()))


# --- how to start them ---------------------------------------------------------------------------


@contextmanager
def one_of_ours(folder: Path) -> Generator[Served]:
    """One broker of ours during a block."""
    with broker(folder / "ours") as server:
        yield Served(OURS, server.bootstrap, lambda: [server.pid])


@contextmanager
def one_of_apache(folder: Path) -> Generator[Served]:
    """One Apache Kafka during a block."""
    with apache_kafka(folder / "apache") as bootstrap:
        pid = server_of(bootstrap)
        yield Served(APACHE, bootstrap, lambda: [pid])


@contextmanager
def three_of_ours(folder: Path, nodes: int = NODES) -> Generator[Served]:
    """A cluster of ours during a block."""
    own = folder / "ours"
    own.mkdir()
    with cluster(own, nodes) as running:

        def pids() -> list[int]:
            return [node.pid for node in running.nodes.values() if node.is_running]

        yield Served(OURS, running.bootstrap, pids, running.kill, running.start)


@contextmanager
def three_of_apache(folder: Path, nodes: int = NODES) -> Generator[Served]:
    """A cluster of Apache Kafka during a block."""
    with ApacheCluster(folder, nodes) as running:
        yield Served(APACHE, running.bootstrap, lambda: running.pids, running.kill, running.start)


def heap() -> Mapping[str, str]:
    """What the environment says of Apache Kafka."""
    return {"Apache Kafka": f"4.4.0 from Maven Central, -Xmx{HEAP_MB}m and -Xms{HEAP_MB}m, G1"}
