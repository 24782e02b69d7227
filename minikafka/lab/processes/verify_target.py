"""Any cluster under attack: what happens to its nodes is a command of the user for each action."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from minikafka.protocol.messages import metadata
from minikafka.testing.wire import Wire

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
        try:
            done = subprocess.run(
                command,
                shell=True,
                capture_output=True,
                text=True,
                timeout=self.timeout_s,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise HookError(
                f"{action.value}: {command!r} was not done after {self.timeout_s:.0f} s"
            ) from None
        if done.returncode:
            said = (done.stderr or done.stdout).strip()[-_SHOWN:] or "nothing"
            raise HookError(
                f"{action.value}: {command!r} ended with {done.returncode} and said {said}"
            )


class VerifyTarget:
    """A cluster of the user; see `minikafka.lab.processes.target.Target`.

    Clients reach it through `Proxy`, which can lose their requests and answers. It needs listeners
    without TLS and SASL.

    Args:
        bootstrap: ``HOST:PORT,...`` of its brokers.
        hooks: what can be done to its nodes.

    Raises:
        UnreachableError: no broker answers.
    """

    name = "verify"
    session_ms = 6_000
    is_direct = False
    patience_s = 90.0

    def __init__(self, bootstrap: str, hooks: Hooks | None = None) -> None:
        self._hooks = hooks or Hooks({})
        self._addresses = _addresses(bootstrap)
        self.nodes: Collection[int] = tuple(sorted(self._addresses))
        self.version = bootstrap
        commands = self._hooks.commands
        can = set(commands) | set(_CUTS)
        if Action.KILL in commands:
            can |= set(_DEATHS)
        self.can = frozenset(can)
        self._failed: HookError | None = None
        self._down: set[int] = set()
        self._paused: set[int] = set()
        self._isolated: set[int] = set()
        self._proxy = Proxy(",".join(self._addresses.values()))
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
            self._hooks.run(action, node)
            self._remember(action, node)

    def restore(self) -> None:
        """Undo what was done to nodes.

        Raises:
            HookError: a command failed, now or since the last call.
            CannotError: a node does not come back.
        """
        self._proxy.disarm()
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
        for node in [*self._paused]:
            self.do(Action.RESUME, node)
        for node in [*self._isolated]:
            self.do(Action.HEAL, node)
        for node in [*self._down]:
            self.do(Action.START, node)

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
        while not _serves(self._addresses[node], node):
            if time.monotonic() > deadline:
                raise CannotError(
                    f"node {node} does not serve {_BACK_TIMEOUT_S:.0f} s after "
                    f"{self._hooks.commands[Action.START]!r}"
                )
            time.sleep(_LOOK_AGAIN_S)

    def _remember(self, action: Action, node: int) -> None:
        if action is Action.PAUSE:
            self._paused.add(node)
        elif action is Action.RESUME:
            self._paused.discard(node)
        elif action is Action.ISOLATE:
            self._isolated.add(node)
        else:
            self._isolated.clear()


def _addresses(bootstrap: str) -> dict[int, str]:
    for place in bootstrap.split(","):
        try:
            with Wire(place.strip(), timeout_s=_ASK_S) as wire:
                answer = wire.ask(metadata.Request(topics=[]), 9, metadata.Response)
        except (OSError, ValueError):
            continue
        return {one.node_id: f"{one.host}:{one.port}" for one in answer.brokers}
    raise UnreachableError(f"no broker of {bootstrap} answers")


def _serves(address: str, node: int) -> bool:
    try:
        with Wire(address, timeout_s=_ASK_S) as wire:
            answer = wire.ask(metadata.Request(topics=[]), 9, metadata.Response)
    except OSError:
        return False
    return node in [one.node_id for one in answer.brokers]
