"""How a command ends: exit codes, and errors that are one line on stderr."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

import click

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_TERMINATED: Final = 143

_NAMES_SHOWN_MAX: Final = 3


class CommandFailed(click.ClickException):
    """A command could not do what it was asked; the message is the line the user reads.

    Attributes:
        command_path: the words that called the command, None outside of one.
    """

    exit_code = EXIT_FAILED

    def __init__(self, message: str) -> None:
        super().__init__(message)
        context = click.get_current_context(silent=True)
        self.command_path = None if context is None else context.command_path


class Interrupted(CommandFailed):
    """Ctrl-C ended the command after it had done a part; the message says which."""

    exit_code = EXIT_INTERRUPTED


class Terminated(Interrupted):
    """The same by SIGTERM."""

    exit_code = EXIT_TERMINATED


def cannot_write(error: OSError) -> CommandFailed:
    """The error for a stdout that takes no more, such as a file on a full disk."""
    return CommandFailed(f"cannot write to stdout: {error.strerror or error}; make room for it")


def one_line(text: str) -> str:
    """Squeeze a message into one line that a terminal cannot misunderstand."""
    return printable("; ".join(line.strip() for line in text.splitlines() if line.strip()))


def printable(text: str) -> str:
    """Escape what is not printable, so that a foreign name cannot control the terminal."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "replace").decode()
        for letter in text
    )


def unknown_name(kind: str, name: str, known: Iterable[str], what_to_do: str) -> CommandFailed:
    """The error for a name that does not exist, with the nearest ones that do.

    Args:
        kind: what was looked for, e.g. "topic".
        name: what the user wrote.
        known: the names there are.
        what_to_do: when nothing is near.
    """
    names = list(known)
    folded = {candidate.casefold(): candidate for candidate in names}
    near = [
        folded[match] for match in get_close_matches(name.casefold(), folded, n=_NAMES_SHOWN_MAX)
    ]
    if not near:
        near = [other for other in names if name and name in other][:_NAMES_SHOWN_MAX]
    if near:
        return CommandFailed(f"there is no {kind} {name!r}; did you mean {' or '.join(near)}?")
    return CommandFailed(f"there is no {kind} {name!r}; {what_to_do}")
