"""A network of its own for each broker, with links that can be cut, one-way too, and slowed down.

    root namespace ── bridge ──┬── node 1's namespace
    (the clients)              ├── node 2's
                               └── node 3's

It takes root and iproute2. A link that is cut drops packets silently, as real ones do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Self

_CLIENTS = 254
_NOBODY = "02:00:00:00:00:99"


def missing() -> str | None:
    """What this machine lacks for it."""
    if shutil.which("ip") is None or shutil.which("tc") is None:
        return "network namespaces need ip and tc, which iproute2 has"
    if os.geteuid() != 0:
        return "network namespaces need root"
    return None


class Network:
    """Namespaces for nodes 1 to `nodes`, for a block.

    Args:
        nodes: how many.
    """

    def __init__(self, nodes: int) -> None:
        self._nodes = range(1, nodes + 1)
        # Several test processes may each have one.
        self._tag = f"mk{os.getpid() % 100_000}"
        self._subnet = f"10.{64 + os.getpid() % 64}.{os.getpid() // 64 % 256}"
        self._cuts: set[tuple[int, int]] = set()

    def address(self, node_id: int) -> str:
        """The host address of a node."""
        return f"{self._subnet}.{node_id}"

    def prefix(self, node_id: int) -> Sequence[str]:
        """Words before a command that put it into a node's namespace."""
        return ("ip", "netns", "exec", self._namespace(node_id))

    def _namespace(self, node_id: int) -> str:
        return f"{self._tag}n{node_id}"

    def _port(self, node_id: int) -> str:
        return f"{self._tag}p{node_id}"

    @property
    def _bridge(self) -> str:
        return f"{self._tag}b"

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._remove()

    def _build(self) -> None:
        _run("ip", "link", "add", self._bridge, "type", "bridge")
        _run("ip", "address", "add", f"{self.address(_CLIENTS)}/24", "dev", self._bridge)
        _run("ip", "link", "set", self._bridge, "up")
        for node_id in self._nodes:
            namespace, port = self._namespace(node_id), self._port(node_id)
            _run("ip", "netns", "add", namespace)
            _run(
                *("ip", "link", "add", port, "type", "veth"),
                *("peer", "name", "eth0", "netns", namespace),
            )
            _run("ip", "link", "set", port, "master", self._bridge, "up")
            inside = ("ip", "-n", namespace)
            _run(*inside, "address", "add", f"{self.address(node_id)}/24", "dev", "eth0")
            _run(*inside, "link", "set", "lo", "up")
            _run(*inside, "link", "set", "eth0", "up")

    def _remove(self) -> None:
        for node_id in self._nodes:
            _run("ip", "netns", "delete", self._namespace(node_id), may_fail=True)
            _run("ip", "link", "delete", self._port(node_id), may_fail=True)
        _run("ip", "link", "delete", self._bridge, may_fail=True)

    # --- what can happen ---

    def isolate(self, node_id: int) -> None:
        """Cut a node off from brokers and clients."""
        _run("ip", "link", "set", self._port(node_id), "down")

    def join(self, node_id: int) -> None:
        """Undo it."""
        _run("ip", "link", "set", self._port(node_id), "up")

    def cut(self, sender: int, receiver: int) -> None:
        """Drop what one node sends to another; what comes the other way arrives."""
        # It goes to an address that does not exist. A route that drops is an error for the sender.
        nobody = ("lladdr", _NOBODY, "dev", "eth0", "nud", "permanent")
        target = self.address(receiver)
        _run("ip", "-n", self._namespace(sender), "neighbour", "replace", target, *nobody)
        self._cuts.add((sender, receiver))

    def cut_both_ways(self, one: int, other: int) -> None:
        """Drop everything between two nodes; others reach both."""
        self.cut(one, other)
        self.cut(other, one)

    def slow_down(self, node_id: int, rate: str) -> None:
        """Limit what a node receives, and what it sends, to a rate such as ``1mbit``."""
        shape = ("root", "tbf", "rate", rate, "burst", "32kbit", "latency", "1s")
        _run("tc", "qdisc", "replace", "dev", self._port(node_id), *shape)
        namespace = self._namespace(node_id)
        _run("tc", "-n", namespace, "qdisc", "replace", "dev", "eth0", *shape)

    def heal(self) -> None:
        """Undo everything."""
        for sender, receiver in sorted(self._cuts):
            target = self.address(receiver)
            inside = ("ip", "-n", self._namespace(sender))
            _run(*inside, "neighbour", "delete", target, "dev", "eth0")
        self._cuts.clear()
        for node_id in self._nodes:
            self.join(node_id)
            _run("tc", "qdisc", "delete", "dev", self._port(node_id), "root", may_fail=True)
            inside = ("tc", "-n", self._namespace(node_id))
            _run(*inside, "qdisc", "delete", "dev", "eth0", "root", may_fail=True)


def _run(*words: str, may_fail: bool = False) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode and not may_fail:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
