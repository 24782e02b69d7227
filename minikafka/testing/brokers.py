"""One broker in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from .channel import CHANNEL_VARIABLE, Channel
from .failpoints import Failpoint, FailpointName, arm
from .faults import Controlled
from .places import Address, Workspace
from .power import SYNCED_VARIABLE, lose_power, prepare
from .process import LOG_TAIL_CHARACTERS, ServerProcess, wait_until_ready
from .settings import DEFAULTS, Setting, assignments

_SERVE: Final = (sys.executable, "-m", "minikafka", "serve")
_SERVE_CONTROLLED: Final = (sys.executable, "-m", "minikafka.testing.inside", "serve")
# As a variable, because tests of upgrades start versions that do not have the option.
_UNTIL_STDIN_CLOSES: Final = {"MINIKAFKA_UNTIL_STDIN_CLOSES": "1"}

# What `minikafka.broker.system.turns` has to say of long turns, and when. It is not imported,
# because a test that only wants a broker need not load one.
_LONG_TURNS_ARE_WATCHED: Final = "MINIKAFKA_TURN_WARNING_MS"
_LONG_TURN: Final = " ms in one turn"


class LongTurnError(AssertionError):
    """A broker kept its clients waiting; see `minikafka.broker.system.turns`."""


def _addresses(listen: str) -> dict[str, Address]:
    """The listeners by name; an address without a name is a plain one."""
    found: dict[str, Address] = {}
    for text in listen.split(","):
        name, separator, address = text.strip().partition("://")
        found[name if separator else "PLAINTEXT"] = Address(address if separator else text)
    return found


def _render(addresses: Mapping[str, Address]) -> str:
    """For the command line: a plain listener alone as older versions understand it, too."""
    if [*addresses] == ["PLAINTEXT"]:
        return str(addresses["PLAINTEXT"])
    return ",".join(f"{name}://{address}" for name, address in addresses.items())


class Broker(Controlled):
    """``minikafka serve``, to be started, killed, paused and started again.

    `minikafka.testing.broker` makes one and describes the arguments. The address and the data stay
    the same over restarts, until the end of the block.

    Attributes:
        name: what errors call it.
        long_turns: after the block, what its log says of turns that took too long. There is
            something only where the environment variable ``MINIKAFKA_TURN_WARNING_MS`` says how
            long a turn may take; then the end of the block raises `LongTurnError`.
    """

    def __init__(
        self,
        settings: Mapping[str, Setting] | None = None,
        *,
        directory: Path | str | None = None,
        keep: bool = False,
        listen: str = "127.0.0.1:0",
        prefix: Sequence[str] = (),
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        defaults: Mapping[str, Setting] = DEFAULTS,
        control: bool = True,
        name: str = "the broker",
        node_id: int = 1,
    ) -> None:
        super().__init__()
        self.name = name
        self._node_id = node_id
        self._is_controlled = control
        self._channel: Channel | None = None
        self._ahead_s = 0.0
        self._workspace = Workspace(directory, keep)
        self._listen = listen
        self._addresses: dict[str, Address] = {}
        self._prefix = tuple(prefix)
        self._arguments = (*assignments(defaults, settings or {}), *arguments)
        self._environment = {**_UNTIL_STDIN_CLOSES, **(environment or {})}
        self._process: ServerProcess | None = None
        self._is_paused = False
        self.long_turns: list[str] = []

    # --- what it is ---

    @property
    def bootstrap(self) -> str:
        """``HOST:PORT``, for clients; known from the first start on."""
        return str(self._place)

    def bootstrap_of(self, listener: str) -> str:
        """``HOST:PORT`` of a listener by its name, if it has several.

        Raises:
            KeyError: it has no such listener.
        """
        return str(self._addresses[listener])

    @property
    def host(self) -> str:
        """Where it listens."""
        return self._place.host

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._place.port

    @property
    def _place(self) -> Address:
        for address in self._addresses.values():
            return address
        raise RuntimeError(f"{self.name} was not started")

    @property
    def directory(self) -> Path:
        """What has its data and its log."""
        return self._workspace.path

    @property
    def data_dir(self) -> Path:
        """Its data directory."""
        return self.directory / "data"

    @property
    def log_path(self) -> Path:
        """The file that takes its stderr, over all restarts."""
        return self.directory / "broker.log"

    @property
    def _synced(self) -> Path:
        return self.directory / "synced"

    def log(self) -> str:
        """What it has written to its log so far, over all restarts."""
        try:
            return self.log_path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    @property
    def process(self) -> ServerProcess:
        """The process that was started last.

        Raises:
            RuntimeError: it was never started.
        """
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process

    @property
    def pid(self) -> int:
        """The process id of the process that was started last."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Whether there is a process, paused or not."""
        return self._process is not None and self._process.exit_code is None

    @property
    def is_paused(self) -> bool:
        """Whether it was suspended, by `pause` or by a failpoint."""
        return self._is_paused or (self._process is not None and self._process.is_stopped)

    # --- what happens to it ---

    def start(self) -> None:
        """Start it and wait until it serves.

        Raises:
            BrokerStartError: it did not start; there is no process then.
        """
        self.launch()
        try:
            wait_until_ready([self.process])
            self.set_ahead(self._ahead_s)
        except BaseException:
            self.process.kill()
            raise

    def launch(self) -> None:
        """Start it without waiting until it serves, as nodes need that wait for each other."""
        if self.is_running:
            raise RuntimeError(f"{self.name} is already running, as process {self.pid}")
        if not self._addresses:
            self._addresses = _addresses(self._listen)
        self._is_paused = False
        if self._process is not None:
            self._process.wait()  # it may have died by itself
        serve, environment = _SERVE, self._environment
        passed: list[int] = []
        if self._is_controlled:
            self._end_control()
            self._channel = channel = Channel(self.name)
            number = channel.theirs.fileno()
            serve, passed = _SERVE_CONTROLLED, [number]
            prepare(self.data_dir, self._synced)
            environment = {
                **environment,
                CHANNEL_VARIABLE: str(number),
                SYNCED_VARIABLE: str(self._synced.absolute()),
            }
        command = [*self._prefix, *serve, "--listen", _render(self._addresses)]
        command += ["--data-dir", str(self.data_dir.absolute()), *self._arguments]
        self._process = ServerProcess(
            self.name, command, self.log_path, environment=environment, pass_fds=passed
        )
        if self._channel is not None:
            self._channel.started()

    def set_ahead(self, seconds: float) -> None:
        """After a start: have the time to which the test has moved the clocks before."""
        self._ahead_s = seconds
        if seconds and self._channel is not None:
            self._channel.call("set_ahead", seconds=seconds)

    def _end_control(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to stop, and wait for the end. It is killed if that takes a minute.

        Args:
            number: the signal to send, SIGTERM or SIGINT.

        Returns:
            Its exit code: 0 after a clean stop, negative for the signal that ended it.
        """
        self.ask_to_stop(number)
        return self.process.wait()

    def ask_to_stop(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to stop, without waiting for the end."""
        self.process.ask_to_stop(number)
        self._is_paused = False

    def kill(self) -> None:
        """End it without a warning (SIGKILL), as a crash would."""
        self.process.kill()
        self._is_paused = False

    def lose_power(self) -> None:
        """Kill it, and take from its files what was not synced, as a power failure would.

        What a broker acknowledges is in the operating system's page cache, unless
        ``flush.messages`` has it synced: here it loses records that `kill` lets it keep.
        `minikafka.testing.power` says how, and what is not imitated.

        Raises:
            RuntimeError: it was never started, or was made with ``control=False``.
        """
        if not self._is_controlled:
            raise RuntimeError(
                f"{self.name} was made with control=False and does not say what it has synced"
            )
        self.kill()
        lose_power(self.data_dir, self._synced)

    def pause(self) -> None:
        """Suspend it (SIGSTOP): its connections stay open and get no answers."""
        self.process.send_signal(signal.SIGSTOP)
        self._is_paused = True

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self.process.send_signal(signal.SIGCONT)
        self._is_paused = False

    def close(self) -> None:
        """Stop it if it runs, and remove what is temporary."""
        try:
            if self.is_running:
                self.stop()
        finally:
            self.release()

    # --- control ---

    def channels(self) -> dict[int, Channel]:
        """How to reach it.

        Raises:
            RuntimeError: it does not run, or was made with ``control=False``.
        """
        if not self.is_running:
            raise RuntimeError(f"{self.name} does not run")
        if self._channel is None:
            raise RuntimeError(f"{self.name} was made with control=False and takes no orders")
        return {self._node_id: self._channel}

    def advance_clocks(self, seconds: float) -> None:
        """See `minikafka.testing.faults.Clock.advance`."""
        self._tell_all("advance", seconds=seconds)
        self._ahead_s += seconds

    def reset(self) -> None:
        """See `minikafka.testing.faults.Controlled.reset`."""
        self._tell_all("reset")

    def restore(self) -> None:
        """See `minikafka.testing.faults.Controlled.restore`."""
        if not self.is_running:
            self.start()
        if self.is_paused:
            self.resume()
        self.clear_faults()
        self.disk_has_room()
        self.forget_requests()

    def failpoint(
        self,
        name: FailpointName,
        *,
        kill: bool = False,
        pause: bool = False,
        error: bool = False,
        times: int | None = 1,
        skip: int = 0,
    ) -> Failpoint:
        """Have a broker die, stand still or fail at a point of its work; see `FAILPOINTS`.

        Nothing is a matter of timing: at the point nothing else happens before. The points are in
        ``docs/testing.md``. A restarted broker has none.

        Args:
            name: of the point.
            kill: end the process, as a crash or ``kill -9`` does.
            pause: stop the process, as `pause` does; `resume` lets it go on.
            error: raise an error that nobody has foreseen, as a bug in the broker would.
            times: how often; None for always.
            skip: how often the point is passed before that.

        Raises:
            ValueError: there is no such point, or not exactly one of the three is to happen.
        """
        return arm([self], name, kill=kill, pause=pause, error=error, times=times, skip=skip)

    def reached_failpoints(self) -> Counter[str]:
        """How often each point was passed, since this was first asked or a failpoint was set."""
        return Counter(self.call("reached_failpoints"))

    def call(self, command: str, **arguments: Any) -> Any:
        """Have the process do something; for `minikafka.testing` itself.

        Raises:
            CommandError: it refused.
            RuntimeError: it does not run, or was made with ``control=False``.
        """
        return self.channels()[self._node_id].call(command, **arguments)

    # --- the end ---

    def release(self) -> None:
        """Give back the port and the temporary directory of a broker that does not run."""
        if self._process is not None:
            self._process.wait()  # its pipes are still open if it died by itself
        self._end_control()
        for address in self._addresses.values():
            address.release()
        if _LONG_TURNS_ARE_WATCHED in os.environ and self._addresses:
            lines = self.log().splitlines()
            self.long_turns = [one for one in lines if _LONG_TURN in one and " WARNING " in one]
        self._workspace.remove()

    def judge(self) -> None:
        """Fail if it kept its clients waiting, where that is watched.

        Raises:
            LongTurnError: some of its turns took too long.
        """
        if self.long_turns:
            raise LongTurnError(f"{self.name} had long turns:\n" + "\n".join(self.long_turns))

    def explain(self, error: BaseException) -> None:
        """Add the end of its log to an error."""
        error.add_note(f"{self.name}'s log ends with:\n{self.log()[-LOG_TAIL_CHARACTERS:]}")
