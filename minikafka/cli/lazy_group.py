"""A group of commands that are imported when they are called.

Every failure ends up here: it becomes one line on stderr, `minikafka COMMAND: what went wrong; what
to do`, and an exit code of `failure`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from .failure import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, one_line

_SPELLED_MARK = re.compile(r"^( *)\\b$", re.MULTILINE)


class _LazyCommands(MutableMapping[str, click.Command]):
    """Commands by name; looking one up imports its module."""

    def __init__(self, locations: Mapping[str, tuple[str, str]]) -> None:
        self._locations = locations
        self._added: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._added:
            module, _ = self._locations[name]
            command: click.Command = import_module(module).command
            _keep_marked_lines(command)
            self._added[name] = command
        return self._added[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._added[name] = command

    def __delitem__(self, name: str) -> None:
        del self._added[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._locations
        yield from (name for name in self._added if name not in self._locations)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self._locations or name in self._added


class LazyGroup(click.Group):
    """The program, whose subcommands are named by the modules they live in.

    Args:
        locations: name -> (module, line of help); the module's `command` is the command.
        **settings: see `click.Group`.
    """

    def __init__(self, locations: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(**settings)
        _keep_marked_lines(self)
        self._locations = locations
        self.commands = _LazyCommands(locations)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands, in the order in which a newcomer meets them."""
        del ctx
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands for ``--help`` without importing any."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._locations.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the program and exit."""
        prog_name = prog_name or "minikafka"
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        try:
            left_early = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.UsageError as error:
            _report_usage(error, prog_name)
        except click.ClickException as error:
            _report(getattr(error, "command_path", None) or prog_name, error.format_message())
            sys.exit(error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            sys.exit(EXIT_INTERRUPTED)
        except MemoryError:
            _report(prog_name, "out of memory")
            sys.exit(EXIT_FAILED)
        sys.exit(left_early if isinstance(left_early, int) else 0)


def _keep_marked_lines(command: click.Command) -> None:
    """Put in click's mark for paragraphs that must not be rewrapped.

    It is a backspace character, which a raw docstring can only spell as a backslash and a b.
    """
    if command.help:
        command.help = _SPELLED_MARK.sub("\\1\b", command.help)
    if isinstance(command, click.Group) and not isinstance(command, LazyGroup):
        for subcommand in command.commands.values():
            _keep_marked_lines(subcommand)


def _report_usage(error: click.UsageError, prog_name: str) -> NoReturn:
    # A group that is called without a command prints its help instead of one line.
    if error.message.startswith("Usage:") or "\n" in error.message:
        click.echo(error.format_message(), err=True)
        sys.exit(EXIT_USAGE)
    path = error.ctx.command_path if error.ctx is not None else prog_name
    problem = error.format_message().rstrip(".")
    _report(path, f"{problem}; see {path} --help")
    sys.exit(EXIT_USAGE)


def _report(path: str, message: str) -> None:
    click.echo(f"{path}: {one_line(message)}", err=True)
