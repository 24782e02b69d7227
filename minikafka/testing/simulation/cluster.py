"""One run of a program: brokers, its processes, faults, and a quiet end to be judged."""

from __future__ import annotations

import random
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

import trio

from minikafka_client.errors import BrokerError, KafkaError
from minikafka_client.trio_api.admin import AdminClient
from minikafka_client.types import NewTopic

from ...protocol.errors import ErrorCode
from .life import LIFE, Life
from .machines import NODES, Machines
from .nemesis import Nemesis
from .network import HOST, Sockets, pass_time
from .node import PORT, host_of
from .observing import Observations, Partition
from .outcome import Stored, Story, stored_records
from .schedule import Fault, Faults
from .trace import Trace

Program = Callable[["Cluster"], Awaitable[object]]
"""What is simulated: a trio function."""

_MAIN: Final = "main"
_START_SECONDS_MAX: Final = 60.0
_LOOK_SECONDS: Final = 0.25
_CALM_SECONDS: Final = 2.5
_RESTART_SECONDS: Final = 1.0
_FIRST_FAULT_SECONDS_MAX: Final = 2.0
_SETTLE_SECONDS_MAX: Final = 240.0
_SLACK_SECONDS: Final = 8.0
"""What a rebalance takes after a session has expired, and a retry after a broker is back."""


class ConsumedRecord(Protocol):
    """A record that a consumer returned."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...


Identity = Callable[[bytes | None, bytes | None], object]
"""(key, value) -> what must be equal in an input record and in what became of it."""


def _everything(key: bytes | None, value: bytes | None) -> object:
    return key, value


@dataclass(frozen=True, slots=True)
class Output:
    """A topic that has to have what another one has.

    Attributes:
        topic: the output.
        source: the input.
        identity: of a record of the output.
        source_identity: of a record of the input.
    """

    topic: str
    source: str
    identity: Identity
    source_identity: Identity


class ProgramFailed(Exception):
    """The program raised what is no error of Kafka: it ends the run."""


class Process:
    """A process of the program, which may have many lives.

    Attributes:
        name: of it, and of its host.
        life: the life that it has now; None while it has none.
        is_done: its function has returned.
    """

    def __init__(
        self, run: Run, name: str, function: Callable[..., Awaitable[object]], arguments: Any
    ) -> None:
        self.name = name
        self.life: Life | None = None
        self.is_done = False
        self._run = run
        self._function = function
        self._arguments = arguments
        self._lives = 0

    def start(self) -> None:
        """Begin a life, unless it has one or is done."""
        if self.life is None and not self.is_done and not self._run.is_over:
            self._lives += 1
            self.life = Life(self.name, self._lives)
            self._run.all_lives.append(self.life)
            if self.name != _MAIN:
                self._run.tell(f"{self.name} starts" + (" again" if self._lives > 1 else ""))
            self._run.programs.start_soon(self._live, self.life, name=self.name)

    def kill(self) -> None:
        """End the life as ``kill -9`` does: no line of the program runs any more."""
        life, self.life = self.life, None
        if life is not None:
            life.is_killed = True
            life.stop()
            network = self._run.machines.network
            network.lose_power(self.name)
            network.power_up(self.name)

    async def _live(self, life: Life) -> None:
        HOST.set(self.name)
        LIFE.set(life)
        error: Exception | None = None
        try:
            await self._function(self._run.cluster, *self._arguments)
        except Exception as failure:  # noqa: BLE001  # what it means is decided below
            error = failure
        if self._run.is_over:
            return
        self.life = None
        if error is None:
            self.is_done = True
            if self.name != _MAIN:
                self._run.tell(f"{self.name} is done")
        elif _is_of_kafka(error):
            self._run.tell(f"{self.name} crashes: {_shortly(_first(error))}")
            self._run.background.start_soon(self._restart)
        else:
            raise ProgramFailed(f"{self.name}: {_shortly(_first(error))}") from error

    async def _restart(self) -> None:
        await pass_time(_RESTART_SECONDS)
        self.start()


def _is_of_kafka(error: Exception) -> bool:
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        return all(_is_of_kafka(one) for one in group.exceptions)
    return isinstance(error, KafkaError)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _shortly(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip().splitlines()[0]


class Cluster:
    """What the program sees of the simulation.

    Attributes:
        bootstrap: of the three brokers, for clients.
        seed: of this run.
        random: follows from the seed.
    """

    def __init__(self, run: Run) -> None:
        self.bootstrap = ",".join(f"{host_of(one)}:{PORT}" for one in range(1, NODES + 1))
        self.seed = run.seed
        self.random = random.Random(f"cluster {run.seed}")
        self._run = run

    async def create_topic(
        self, name: str, partitions: int = 1, configs: dict[str, str] | None = None
    ) -> None:
        """Make a topic with three replicas; returns when it is there, also if it was before."""
        while True:
            try:
                async with AdminClient(self.bootstrap) as admin:
                    topic = NewTopic(name, partitions, NODES, configs or {})
                    await admin.create_topics([topic])
                    return
            except BrokerError as error:
                if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                    return
                if not error.is_retriable:
                    raise
            except KafkaError as error:
                if not error.is_retriable:
                    raise
            await pass_time(_LOOK_SECONDS)

    def start_soon(
        self, name: str, function: Callable[..., Awaitable[object]], *arguments: Any
    ) -> None:
        """Start a process of the program, on a host of its own.

        Faults may kill and pause it, and cut it off. After a kill it is started again, with the
        same arguments; also one second after it ended with an error of Kafka. One that returns is
        done.

        Args:
            name: of the process and of its host.
            function: called with this object and the arguments.
            arguments: see above.

        Raises:
            ValueError: there is such a process, or broker.
        """
        run = self._run
        if name in run.processes or name in (_MAIN, *(one.host for one in run.machines.nodes)):
            raise ValueError(f"the name {name!r} is taken; every process needs one of its own")
        process = run.processes[name] = Process(run, name, function, arguments)
        process.start()
        run.has_processes.set()

    def processed(self, record: ConsumedRecord) -> None:
        """Declare that a consumed record has had its effect, now.

        Every record of its topic has to be processed as often as the guarantee says. Call it where
        the effect happens (the write to your store has succeeded), and also for records that the
        program skips on purpose.
        """
        self._run.seen.has_processed((record.topic, record.partition), record.offset)

    def output(
        self,
        topic: str,
        source: str,
        *,
        identity: Identity | None = None,
        source_identity: Identity | None = None,
    ) -> None:
        """Declare that each record of the topic ``source`` becomes one in ``topic``.

        Only what consumers with ``isolation_level="read_committed"`` see counts.

        Args:
            topic: the output.
            source: the input.
            identity: of ``(key, value)`` of a record of the output, both bytes or None; equal to
                that of the record of the input. By default all of it.
            source_identity: the same for records of the input.
        """
        self._run.outputs[topic, source] = Output(
            topic, source, identity or _everything, source_identity or _everything
        )

    def note(self, text: str) -> None:
        """Write a line into the story."""
        life = LIFE.get()
        self._run.tell(f"{life}: {text}" if life is not None else text)


@dataclass(slots=True)
class Run:
    """A program, a seed and what goes wrong; `play` plays it once."""

    program: Program
    seed: int
    faults: Faults | Sequence[Fault]
    settings: Sequence[str]
    waits_for_all: bool
    trace: Trace = field(default_factory=Trace)
    seen: Observations = field(default_factory=Observations)
    story: Story = field(default_factory=Story)
    schedule: list[Fault] = field(default_factory=list[Fault])
    processes: dict[str, Process] = field(default_factory=dict[str, Process])
    all_lives: list[Life] = field(default_factory=list[Life])
    outputs: dict[tuple[str, str], Output] = field(default_factory=dict[tuple[str, str], Output])
    stored: dict[Partition, list[Stored]] = field(default_factory=dict[Partition, list[Stored]])
    begun_at_s: float = 0.0
    ended_at_s: float = 0.0
    is_over: bool = False
    machines: Machines = field(init=False)
    cluster: Cluster = field(init=False)
    programs: trio.Nursery = field(init=False)
    background: trio.Nursery = field(init=False)
    has_processes: trio.Event = field(init=False)

    def __post_init__(self) -> None:
        self.machines = Machines(self.seed, self.trace.note, self.settings)
        self.cluster = Cluster(self)

    def tell(self, text: str) -> None:
        """Write a line into the story."""
        if not self.is_over:
            self.trace.note(text)
            self.story.tell(text)

    # --- the run ---------------------------------------------------------------------------------

    async def play(self) -> None:
        """Play it to its end.

        Raises:
            ProgramFailed: the program is broken.
        """
        self.has_processes = trio.Event()
        Sockets(self.machines.network).install()
        async with trio.open_nursery() as self.programs, trio.open_nursery() as self.background:
            try:
                self.machines.start_all(self.background)
                with trio.fail_after(_START_SECONDS_MAX):
                    while not self.machines.are_all_in_sync():
                        await pass_time(_LOOK_SECONDS)
                self.background.start_soon(self._watch_leaders)
                await self._play_program()
            finally:
                self.ended_at_s = trio.current_time()
                self._end()

    async def _play_program(self) -> None:
        self.begun_at_s = trio.current_time()
        self.story.begins(self.begun_at_s)
        main = Process(self, _MAIN, self._call_program, ())
        main.start()
        with trio.move_on_after(_FIRST_FAULT_SECONDS_MAX):
            await self.has_processes.wait()
        names = sorted(self.processes)
        if isinstance(self.faults, Faults):
            dice = random.Random(f"faults {self.seed}")
            self.schedule = self.faults.draw(dice, names)
        else:
            self.schedule = sorted(self.faults, key=lambda one: one.at_s)
        self.begun_at_s = trio.current_time()
        self.story.begins(self.begun_at_s)
        await Nemesis(self.machines, self.processes, self.tell).run(self.schedule)
        self._heal()
        await self._settle(main)

    async def _call_program(self, cluster: Cluster) -> None:
        await self.program(cluster)

    def _heal(self) -> None:
        self.tell("everything works again")
        self.machines.network.heal()
        self.machines.network.losses.clear()
        self.machines.start_missing()
        for process in self.processes.values():
            process.start()

    def _end(self) -> None:
        """Nothing counts any longer: what still runs is cancelled, and nobody answers."""
        self.is_over = self.seen.is_over = True
        self.machines.network.end()
        self.background.cancel_scope.cancel()
        self.programs.cancel_scope.cancel()
        for life in (*self.all_lives, *(one.life for one in self.machines.nodes)):
            life.go_on()

    # --- the quiet end ---------------------------------------------------------------------------

    async def _settle(self, main: Process) -> None:
        """Wait until all is done, or nothing has happened for longer than anything may take."""
        healed_at_s = trio.current_time()
        deadline = healed_at_s + _SETTLE_SECONDS_MAX
        looked_at_s = -1.0
        while trio.current_time() < deadline:
            await pass_time(_LOOK_SECONDS)
            quiet_s = trio.current_time() - max(self.seen.last_at_s, healed_at_s)
            if quiet_s < _CALM_SECONDS or self.seen.undecided or not self._is_stable():
                continue
            if quiet_s > self.seen.session_s + _SLACK_SECONDS and main.is_done:
                break
            if self.seen.last_at_s != looked_at_s and main.is_done:
                looked_at_s = self.seen.last_at_s
                if not self.missing():
                    break
        with suppress(AssertionError, KeyError):
            self.stored = stored_records(self.machines)

    def _is_stable(self) -> bool:
        """Replicas are equal, and no transaction is open, so that logs can be judged."""
        machines = self.machines
        return (
            machines.are_all_in_sync()
            and machines.are_equally_long()
            and all(
                log.last_stable_offset == log.high_watermark for _, (log, *_) in machines.logs()
            )
        )

    def missing(self) -> bool:
        """Whether some record has not had the effect that the program declares."""
        if not self.waits_for_all:
            return False
        self.stored = stored_records(self.machines)
        topics = {one.place[0] for one in self.seen.processed}
        done = {(*one.place, one.offset) for one in self.seen.processed}
        for (topic, number), records in self.stored.items():
            for one in records:
                if topic in topics and one.is_visible and (topic, number, one.offset) not in done:
                    return True
        return any(self._is_output_missing(one) for one in self.outputs.values())

    def _is_output_missing(self, output: Output) -> bool:
        there = {
            output.identity(one.key, one.value)
            for (topic, _), records in self.stored.items()
            for one in records
            if topic == output.topic and one.is_visible
        }
        return any(
            output.source_identity(one.key, one.value) not in there
            for (topic, _), records in self.stored.items()
            for one in records
            if topic == output.source and one.is_visible
        )

    async def _watch_leaders(self) -> None:
        while True:
            for node in self.machines.nodes:
                if node.is_serving and not node.life.is_stopped:
                    self.story.leaders(node.broker.image)
            await pass_time(_LOOK_SECONDS)
