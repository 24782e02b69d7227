"""What goes wrong, and when: faults as values, and how a seed draws them.

Every fault undoes itself: ``at_s`` is when it begins, in seconds since the program began, and
``for_s`` how long it lasts. So any part of a schedule is a schedule, which is what shrinking needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from .machines import NODES
from .node import host_of

_APIS: Final = {
    None: "any request",
    0: "a Produce request",
    8: "an OffsetCommit request",
    26: "an EndTxn request",
    28: "a TxnOffsetCommit request",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong.

    Attributes:
        at_s: when, in seconds since the program began.
        for_s: for how long.
    """

    at_s: float
    for_s: float = 0.0

    @property
    def end_s(self) -> float:
        """When it is over."""
        return self.at_s + self.for_s

    def __str__(self) -> str:
        return type(self).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class KillBroker(Fault):
    """``kill -9`` of a broker, which starts again after ``for_s`` seconds."""

    broker: int

    def __str__(self) -> str:
        return f"broker {self.broker} is killed, and starts {self.for_s:g} s later"


@dataclass(frozen=True, slots=True, kw_only=True)
class LosePower(Fault):
    """The machine of a broker loses its power, and what it has not synced to its disk.

    Only while all replicas are in sync: more than one such loss at a time may lose acknowledged
    records, in Kafka too.
    """

    broker: int

    def __str__(self) -> str:
        return f"the machine of broker {self.broker} has no power for {self.for_s:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseBroker(Fault):
    """A broker does nothing for a while: SIGSTOP, or a machine that swaps."""

    broker: int

    def __str__(self) -> str:
        return f"broker {self.broker} is paused for {self.for_s:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class KillProcess(Fault):
    """``kill -9`` of a process of the program, which starts again after ``for_s`` seconds."""

    process: str

    def __str__(self) -> str:
        return f"{self.process} is killed, and starts {self.for_s:g} s later"


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseProcess(Fault):
    """A process of the program does nothing for a while, and knows nothing of it afterwards."""

    process: str

    def __str__(self) -> str:
        return f"{self.process} is paused for {self.for_s:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLinks(Fault):
    """No packet gets from some hosts to others; those of the other direction do.

    Hosts are ``broker1`` to ``broker3`` and the names of processes.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]

    def __str__(self) -> str:
        sources, targets = ", ".join(self.sources), ", ".join(self.targets)
        return f"nothing gets from {sources} to {targets} for {self.for_s:g} s"

    def links(self) -> list[tuple[str, str]]:
        """The directions that are cut."""
        return [(one, other) for one in self.sources for other in self.targets if one != other]


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolate(CutLinks):
    """No packet gets from some hosts to others, nor back."""

    def __str__(self) -> str:
        sources, targets = ", ".join(self.sources), ", ".join(self.targets)
        return f"{sources} and {targets} are cut off from each other for {self.for_s:g} s"

    def links(self) -> list[tuple[str, str]]:
        """The directions that are cut."""
        pairs = [(one, other) for one in self.sources for other in self.targets if one != other]
        return [*pairs, *((other, one) for one, other in pairs)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowLink(Fault):
    """Everything between two hosts takes ``delay_s`` longer."""

    source: str
    target: str
    delay_s: float

    def __str__(self) -> str:
        return (
            f"packets between {self.source} and {self.target} take {self.delay_s:g} s longer, "
            f"for {self.for_s:g} s"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseRequest(Fault):
    """The next request of a process gets lost, and its connection breaks.

    Attributes:
        process: whose request.
        api: which one, by its number in Kafka's protocol; None for any.
    """

    process: str
    api: int | None = None

    def __str__(self) -> str:
        what = _APIS.get(self.api, f"a request of API {self.api}")
        return f"{what} of {self.process} is lost with its connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseAcknowledgement(Fault):
    """The next request of a process takes effect, and its answer gets lost with the connection.

    Attributes:
        process: whose request.
        api: which one, by its number in Kafka's protocol; None for any.
    """

    process: str
    api: int | None = None

    def __str__(self) -> str:
        what = _APIS.get(self.api, f"a request of API {self.api}")
        return f"the answer to {what} of {self.process} is lost with its connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpClock(Fault):
    """The time of day of a host jumps, forwards or backwards, and jumps back after ``for_s``."""

    host: str
    by_s: float

    def __str__(self) -> str:
        return f"the clock of {self.host} is {self.by_s:+g} s off for {self.for_s:g} s"


KINDS: Final[tuple[type[Fault], ...]] = (
    KillBroker,
    LosePower,
    PauseBroker,
    KillProcess,
    PauseProcess,
    CutLinks,
    Isolate,
    SlowLink,
    LoseRequest,
    LoseAcknowledgement,
    JumpClock,
)
"""Everything that may go wrong."""

_OF_PROCESSES: Final = frozenset({KillProcess, PauseProcess, LoseRequest, LoseAcknowledgement})


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How a seed draws what goes wrong.

    Attributes:
        kinds: what may go wrong; one that is named twice is twice as likely.
        seconds: for how long new faults begin, in simulated seconds.
        pause_s: the longest time between the beginnings of two faults.
        for_s: the longest time that a fault lasts.
        long_s: the longest time that a process or a broker is paused. Let it be longer than your
            session timeout, or no group will ever lose a member that comes back.
    """

    kinds: Sequence[type[Fault]] = KINDS
    seconds: float = 12.0
    pause_s: float = 2.0
    for_s: float = 4.0
    long_s: float = 15.0

    def draw(self, dice: Random, processes: Sequence[str]) -> list[Fault]:
        """A schedule.

        Args:
            dice: every choice comes from it.
            processes: which processes may be hit.

        Raises:
            ValueError: nothing can go wrong that way.
        """
        kinds = [kind for kind in self.kinds if processes or kind not in _OF_PROCESSES]
        if self.kinds and not kinds:
            raise ValueError("these faults need processes: start some with `start_soon`")
        faults: list[Fault] = []
        at_s = 0.0
        while kinds:
            at_s = round(at_s + dice.uniform(0.0, self.pause_s), 2)
            if at_s > self.seconds:
                break
            faults.append(_DRAWN[dice.choice(kinds)](self, dice, at_s, processes))
        return faults


def end_of(faults: Iterable[Fault]) -> float:
    """When the last of them is over."""
    return max((one.end_s for one in faults), default=0.0)


def lasting(fault: Fault, for_s: float) -> Fault:
    """The same fault for another time."""
    return replace(fault, for_s=for_s)


# --- how each kind is drawn ----------------------------------------------------------------------

_Draw = Callable[[Faults, Random, float, Sequence[str]], Fault]


def _short(faults: Faults, dice: Random) -> float:
    return round(dice.uniform(0.1, faults.for_s), 2)


def _long(faults: Faults, dice: Random) -> float:
    return round(dice.uniform(*sorted((0.5, faults.long_s))), 2)


def _broker(dice: Random) -> int:
    return dice.randint(1, NODES)


def _hosts(processes: Sequence[str]) -> list[str]:
    return [*(host_of(one) for one in range(1, NODES + 1)), *processes]


def _of_broker(kind: Any, duration: Callable[[Faults, Random], float]) -> _Draw:
    def draw(faults: Faults, dice: Random, at_s: float, _: Sequence[str]) -> Fault:
        fault: Fault = kind(at_s=at_s, for_s=duration(faults, dice), broker=_broker(dice))
        return fault

    return draw


def _of_process(kind: Any, duration: Callable[[Faults, Random], float]) -> _Draw:
    def draw(faults: Faults, dice: Random, at_s: float, processes: Sequence[str]) -> Fault:
        for_s = duration(faults, dice)
        fault: Fault = kind(at_s=at_s, for_s=for_s, process=dice.choice(processes))
        return fault

    return draw


def _loss(kind: Any) -> _Draw:
    def draw(_: Faults, dice: Random, at_s: float, processes: Sequence[str]) -> Fault:
        api = dice.choice([*_APIS])
        fault: Fault = kind(at_s=at_s, process=dice.choice(processes), api=api)
        return fault

    return draw


def _cut(faults: Faults, dice: Random, at_s: float, processes: Sequence[str]) -> Fault:
    source, target = dice.sample(_hosts(processes), 2)
    return CutLinks(at_s=at_s, for_s=_short(faults, dice), sources=(source,), targets=(target,))


def _isolate(faults: Faults, dice: Random, at_s: float, processes: Sequence[str]) -> Fault:
    """A broker loses the other brokers, or everybody; a process loses the brokers."""
    hosts = _hosts(processes)
    one = dice.choice(hosts)
    others = tuple(host for host in hosts[:NODES] if host != one)
    if one in hosts[:NODES] and dice.random() < 0.5:
        others = tuple(host for host in hosts if host != one)
    return Isolate(at_s=at_s, for_s=_short(faults, dice), sources=(one,), targets=others)


def _slow(faults: Faults, dice: Random, at_s: float, processes: Sequence[str]) -> Fault:
    source, target = dice.sample(_hosts(processes), 2)
    delay_s = round(dice.uniform(0.02, 1.0), 2)
    for_s = _short(faults, dice)
    return SlowLink(at_s=at_s, for_s=for_s, source=source, target=target, delay_s=delay_s)


def _jump(faults: Faults, dice: Random, at_s: float, processes: Sequence[str]) -> Fault:
    host = dice.choice(_hosts(processes))
    by_s = float(dice.choice((-3000, -10, 10, 3000)))  # brokers refuse timestamps beyond an hour
    return JumpClock(at_s=at_s, for_s=_short(faults, dice), host=host, by_s=by_s)


_DRAWN: Final[dict[type[Fault], _Draw]] = {
    KillBroker: _of_broker(KillBroker, _short),
    LosePower: _of_broker(LosePower, _short),
    PauseBroker: _of_broker(PauseBroker, _long),
    KillProcess: _of_process(KillProcess, _short),
    PauseProcess: _of_process(PauseProcess, _long),
    CutLinks: _cut,
    Isolate: _isolate,
    SlowLink: _slow,
    LoseRequest: _loss(LoseRequest),
    LoseAcknowledgement: _loss(LoseAcknowledgement),
    JumpClock: _jump,
}
