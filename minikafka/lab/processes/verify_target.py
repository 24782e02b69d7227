"""Any cluster under attack: what happens to its nodes is a command of the user for each action."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import IO, Final

from minikafka.protocol.messages import metadata
from minikafka_client.options import ConnectionOptions

from ...cli.failure import one_line
from .link import RefusedError, ask, connection_options, without_tls
from .proxy import Loss, Proxy
from .target import Action, CannotError

HOOKS: Final = (
    Action.KILL,
    Action.STOP,
    Action.START,
    Action.PAUSE,
    Action.RESUME,
    Action.ISOLATE,
    Action.HEAL,
)
"""The actions that a user can give commands for."""

_TOGETHER: Final[Mapping[Action, Action]] = {
    Action.KILL: Action.START,
    Action.STOP: Action.START,
    Action.PAUSE: Action.RESUME,
    Action.ISOLATE: Action.HEAL,
}
_TIMEOUT_S: Final = 60.0
_SHOWN: Final = 500
_ASK_S: Final = 5.0
_LOOK_AGAIN_S: Final = 0.1
_STARTING_S: Final = 5.0
_BACK_TIMEOUT_S: Final = 120.0
_CUTS: Final[Mapping[Action, Loss]] = {
    Action.LOSE_REQUEST: "request",
    Action.LOSE_ACK: "answer",
    Action.REFUSE: "refusal",
}
_DEATHS: Final[Mapping[Action, Loss]] = {
    Action.KILL_BEFORE_APPEND: "death before",
    Action.KILL_AFTER_APPEND: "death after",
    Action.KILL_AFTER_ACK: "death after answer",
}


class HookError(CannotError):
    """A command of the user failed; the message has its exit code and what it said."""


class UnreachableError(CannotError):
    """No broker of the cluster answers."""


@dataclass(frozen=True)
class Hooks:
    """Commands of the user.

    Attributes:
        commands: by action; ``{node}`` in them is replaced by the node's id.
        timeout_s: how long each may take.

    Raises:
        ValueError: an action has no command that undoes it.
    """

    commands: Mapping[Action, str]
    timeout_s: float = _TIMEOUT_S

    def __post_init__(self) -> None:
        for action, other in _TOGETHER.items():
            if action in self.commands and other not in self.commands:
                raise ValueError(
                    f"--on {action.value}=... needs --on {other.value}=..., or the cluster would "
                    f"stay as it is"
                )

    @classmethod
    def parse(cls, words: Iterable[str], *, timeout_s: float = _TIMEOUT_S) -> Hooks:
        """Read ``ACTION=COMMAND`` words.

        Raises:
            ValueError: one is malformed, or there is no such action.
        """
        commands: dict[Action, str] = {}
        known = {action.value: action for action in HOOKS}
        for word in words:
            name, equals, command = word.partition("=")
            if name not in known or not equals or not command.strip():
                raise ValueError(
                    f"--on {word!r}: write ACTION=COMMAND; actions are {', '.join(known)}"
                )
            commands[known[name]] = command
        return cls(commands, timeout_s)

    def run(self, action: Action, node: int) -> None:
        """Run the command of an action.

        Raises:
            HookError: it failed, or took too long.
        """
        command = self.commands[action].replace("{node}", str(node))
        # Not a pipe: a broker that the command leaves in the background would keep it open.
        with tempfile.TemporaryFile() as output:
            # Not in our group: Ctrl-C ends the verification, which then undoes what was done.
            process = subprocess.Popen(
                command,
                shell=True,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                exit_code = process.wait(self.timeout_s)
            except subprocess.TimeoutExpired:
                _end_with_children(process)
                raise HookError(
                    f"{action.value}: {command!r} was not done after {self.timeout_s:g} s"
                ) from None
            except BaseException:
                _end_with_children(process)
                raise
            if exit_code:
                said = _end_of(output) or "nothing"
                raise HookError(
                    f"{action.value}: {command!r} ended with {exit_code} and said {said}"
                )


def _end_with_children(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end_of(output: IO[bytes]) -> str:
    """The last of what a command has written, in one line."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _SHOWN))
    return one_line(output.read().decode(errors="replace"))


class VerifyTarget:
    """A cluster of the user; see `minikafka.lab.processes.target.Target`.

    Clients reach it through `Proxy`, which can lose their requests and answers, and which speaks
    TLS for them.

    Args:
        bootstrap: ``HOST:PORT,...`` of its brokers.
        hooks: what can be done to its nodes.
        properties: what its clients need besides, by Kafka's names.

    Raises:
        UnreachableError: no broker answers, or none accepts us.
        TypeError: a property is unknown.
        ValueError: a property is malformed.
    """

    name = "verify"
    session_ms = 6_000
    is_direct = False
    patience_s = 90.0

    def __init__(
        self,
        bootstrap: str,
        hooks: Hooks | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._hooks = hooks or Hooks({})
        self._connection = connection_options(properties or {})
        self._addresses = _addresses(bootstrap, self._connection)
        self.nodes: Collection[int] = tuple(sorted(self._addresses))
        self.version = bootstrap
        commands = self._hooks.commands
        can = set(commands) | set(_CUTS)
        if Action.KILL in commands:
            can |= set(_DEATHS)
        self.can = frozenset(can)
        self.properties: Mapping[str, str] = without_tls(properties or {})
        self._failed: HookError | None = None
        self._down: set[int] = set()
        self._paused: set[int] = set()
        self._isolated: set[int] = set()
        tls = self._connection.get("ssl_context")
        self._proxy = Proxy(",".join(self._addresses.values()), tls)
        self.bootstrap = self._proxy.bootstrap

    def do(self, action: Action, node: int) -> None:
        """See `minikafka.lab.processes.target.Target.do`.

        Raises:
            HookError: the command failed.
            CannotError: the node did not come back, or there is no such command.
        """
        if action not in self.can:
            raise CannotError(f"there is no --on {action.value}=COMMAND")
        if action in _CUTS:
            self._proxy.arm(self._addresses[node], _CUTS[action])
        elif action in _DEATHS:
            loss = _DEATHS[action]
            self._proxy.arm(self._addresses[node], loss, lambda: self._kill(node))
        elif action in {Action.KILL, Action.STOP}:
            if node not in self._down:
                self._down.add(node)
                self._hooks.run(action, node)
        elif action is Action.START:
            self._start(node)
        else:
            # One that fails may have done its work.
            if action in {Action.PAUSE, Action.ISOLATE}:
                self._remember(action, node)
            self._hooks.run(action, node)
            self._remember(action, node)

    def restore(self) -> None:
        """Undo what was done to nodes, each of them whether or not another one's command fails.

        Raises:
            HookError: a command failed, now or since the last call.
            CannotError: a node does not come back.
        """
        self._proxy.disarm()
        failed, self._failed = self._failed, None
        undone = [(Action.RESUME, node) for node in sorted(self._paused)]
        undone += [(Action.HEAL, node) for node in sorted(self._isolated)]
        undone += [(Action.START, node) for node in sorted(self._down)]
        errors: list[CannotError] = [] if failed is None else [failed]
        for action, node in undone:
            try:
                self.do(action, node)
            except CannotError as error:
                # What was not done cannot be undone: perhaps a command of this node had failed.
                if action is Action.HEAL or not self._serves(node):
                    errors.append(error)
                else:
                    self._paused.discard(node)
                    self._down.discard(node)
        if errors:
            raise errors[0]

    def close(self) -> None:
        """Restore the cluster, and end the proxy."""
        try:
            self.restore()
        finally:
            self._proxy.close()

    def _kill(self, node: int) -> None:
        """In the thread of the proxy, which nobody waits for."""
        try:
            self.do(Action.KILL, node)
        except HookError as error:
            self._failed = error

    def _start(self, node: int) -> None:
        if node not in self._down:
            return
        self._hooks.run(Action.START, node)
        self._down.discard(node)
        deadline = time.monotonic() + _BACK_TIMEOUT_S
        while not self._serves(node):
            if time.monotonic() > deadline:
                raise CannotError(
                    f"node {node} does not serve {_BACK_TIMEOUT_S:.0f} s after "
                    f"{self._hooks.commands[Action.START]!r}"
                )
            time.sleep(_LOOK_AGAIN_S)

    def _serves(self, node: int) -> bool:
        try:
            return node in _nodes_at(self._addresses[node], self._connection)
        except OSError:
            return False

    def _remember(self, action: Action, node: int) -> None:
        if action is Action.PAUSE:
            self._paused.add(node)
        elif action is Action.RESUME:
            self._paused.discard(node)
        elif action is Action.ISOLATE:
            self._isolated.add(node)
        else:
            self._isolated.discard(node)


def _addresses(bootstrap: str, options: ConnectionOptions) -> dict[int, str]:
    """The nodes of a cluster, with their addresses.

    Brokers that have only just started may not know of each other yet. So if they know of fewer
    than were named, they are asked again for some seconds.
    """
    places = dict.fromkeys(place.strip() for place in bootstrap.split(","))
    deadline = time.monotonic() + _STARTING_S
    while True:
        nodes = _first_answer(places, options)
        if len(nodes) >= len(places) or time.monotonic() > deadline:
            return nodes
        time.sleep(_LOOK_AGAIN_S)


def _first_answer(places: Iterable[str], options: ConnectionOptions) -> dict[int, str]:
    reason: OSError | None = None
    for place in places:
        try:
            return _nodes_at(place, options)
        except RefusedError as error:
            raise UnreachableError(str(error)) from None
        except OSError as error:
            reason = error
    raise UnreachableError(f"no broker of {','.join(places)} answers: {reason}")


def _nodes_at(place: str, options: ConnectionOptions) -> dict[int, str]:
    """The nodes that a broker knows, with their addresses.

    Raises:
        OSError: it does not answer.
    """
    asked = metadata.Request(topics=[])
    answer = ask(place, asked, 9, metadata.Response, options=options, timeout_s=_ASK_S)
    return {one.node_id: f"{one.host}:{one.port}" for one in answer.brokers}
