"""What a SASL mechanism's server side says to the session that runs it (`sasl`).

A mechanism is a machine: `ServerMechanism.step` takes a token of the client and returns what comes
of it. It does no I/O; what takes long (a slow hash, a signature) is a `Check` that the shell runs
in a worker thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

__all__ = ["Challenge", "Check", "Denied", "Granted", "ServerMechanism", "Step", "Verdict"]


class Challenge(NamedTuple):
    """The client has to answer this token."""

    token: bytes


class Granted(NamedTuple):
    """The client has proved who it is.

    Attributes:
        user: the name of the principal.
        token: the mechanism's last word to the client.
        expires_at_ms: when what it showed becomes invalid, in milliseconds since 1970; None: never.
    """

    user: str
    token: bytes = b""
    expires_at_ms: int | None = None


class Denied(NamedTuple):
    """The client has not proved who it is.

    Attributes:
        reason: for the broker's log; has no secret in it.
        message: for the client, if it may know more than that its credentials are invalid.
    """

    reason: str
    message: str | None = None


Verdict = Challenge | Granted | Denied


class Check(NamedTuple):
    """A verdict that takes too long for an event loop; ``run`` may be called in any thread."""

    run: Callable[[], Verdict]


Step = Verdict | Check


class ServerMechanism(Protocol):
    """One authentication with one mechanism; not used again after `Granted` or `Denied`."""

    def step(self, token: bytes) -> Step:
        """Take the client's next token, which may be any bytes."""
        ...
