"""How a command fails: exit codes, and errors that are one line on stderr."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import click

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_TERMINATED: Final = 143

_NAMES_SHOWN_MAX: Final = 3


class CommandFailed(click.ClickException):
    """A command could not do what it was asked; the message is the line the user reads."""

    exit_code = EXIT_FAILED

    def __init__(self, message: str) -> None:
        super().__init__(message)
        context = click.get_current_context(silent=True)
        # Taken now: the context has been popped when the message is printed.
        self.command_path = None if context is None else context.command_path


class Interrupted(CommandFailed):
    """Ctrl-C ended the command; the message says what it had done by then."""

    exit_code = EXIT_INTERRUPTED


class Terminated(Interrupted):
    """The same for SIGTERM."""

    exit_code = EXIT_TERMINATED


def one_line(text: str) -> str:
    """Squeeze a message into one line that cannot control the terminal."""
    return printable("; ".join(line.strip() for line in text.splitlines() if line.strip()))


def printable(text: str) -> str:
    """Escape unprintable characters, so that a foreign name cannot control the terminal."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "replace").decode()
        for letter in text
    )


def unknown_name(kind: str, name: str, known: Iterable[str], advice: str) -> CommandFailed:
    """The error for a `kind` (e.g. "topic") that does not exist.

    It suggests the nearest `known` names, or gives `advice` if there are none.
    """
    from difflib import get_close_matches

    names = list(known)
    folded = {candidate.casefold(): candidate for candidate in names}
    near = [
        folded[match] for match in get_close_matches(name.casefold(), folded, n=_NAMES_SHOWN_MAX)
    ]
    if not near:
        near = [other for other in names if name and name in other][:_NAMES_SHOWN_MAX]
    if near:
        return CommandFailed(f"there is no {kind} {name!r}; did you mean {' or '.join(near)}?")
    return CommandFailed(f"there is no {kind} {name!r}; {advice}")
