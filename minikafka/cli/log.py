"""``minikafka log``: the contents of the files of a data directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from .failure import CommandFailed, printable
from .output import count_of, is_terminal, print_json, reader_may_leave

if TYPE_CHECKING:
    from .dump.entry import Entries, Entry

_PLAIN_TEXT: Final = {
    ".lock": "process id of the broker that uses the directory, or used it last",
    "clean-shutdown": "the last broker here stopped cleanly",
}
_QUORUM_LOG_NAME: Final = "quorum.log"
_QUORUM_SYNCED_NAME: Final = "quorum-synced"
_RECORD_LOG_NAMES: Final = (_QUORUM_LOG_NAME, "metadata.log")
# All of these contain batches, one after the other; see minikafka.storage.file_names.
_SEGMENT_SUFFIXES: Final = ("log", "swap", "cleaned", "quarantine")
_PLAIN_TEXT_SIZE_BYTES_MAX: Final = 100


@click.group("log")
def command() -> None:
    """Look into the files of a data directory."""


@command.command("dump")
@click.argument(
    "paths",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, path_type=Path),
)
@click.option("--records", is_flag=True, help="Also show the records inside the batches.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each entry.")
def dump(paths: tuple[Path, ...], records: bool, as_json: bool) -> None:
    r"""Show the contents of segments, indexes, snapshots, checkpoints and the metadata log.

    For a directory, the files directly in it. Files are only read, so a broker may be using them.
    Every CRC is checked: damage is shown as DAMAGE, and makes the exit code 1.

    \b
    Examples:
      minikafka log dump minikafka-data/orders-0
      minikafka log dump --records minikafka-data/orders-0/00000000000000000000.log
      minikafka log dump minikafka-data/orders-0/*.index minikafka-data/orders-0/*.snapshot
      minikafka log dump --records minikafka-data/quorum.log --json
    """
    files = [file for path in paths for file in _files_of(path)]
    damaged = 0
    is_red = is_terminal(sys.stdout)
    with reader_may_leave():
        for path in files:
            damaged += _dump_one(path, records, as_json, is_red)
    if damaged:
        raise CommandFailed(
            f"{count_of(damaged, 'damaged place')} in {count_of(len(files), 'file')}; "
            f"a broker that starts on this directory repairs what can be repaired"
        )


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.is_file())


def _dump_one(path: Path, records: bool, as_json: bool, is_red: bool) -> int:
    from .dump.text import text_of

    damaged = 0
    try:
        size_bytes = path.stat().st_size
        if as_json:
            print_json({"type": "file", "path": str(path), "size_bytes": size_bytes})
        else:
            click.echo(f"{printable(str(path))}: {count_of(size_bytes, 'byte')}")
        for entry in entries_of(path, with_records=records):
            is_damage = entry["type"] == "damage"
            damaged += is_damage
            if as_json:
                print_json(entry)
            elif is_damage and is_red:
                click.secho(text_of(entry), fg="red")
            else:
                click.echo(text_of(entry))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandFailed(f"cannot read {path}: {error.strerror or error}") from None
    return damaged


def entries_of(path: Path, *, with_records: bool) -> Entries:
    """Read a file of any kind; see `minikafka.cli.dump`.

    Raises:
        OSError: the file cannot be read.
    """
    from .dump.checked import read_checked
    from .dump.index import read_index, read_time_index, read_transaction_index
    from .dump.record_log import MAGIC, read_record_log, read_synced
    from .dump.segment import read_segment

    name = path.name
    with path.open("rb") as file:
        beginning = file.read(len(MAGIC))
    if name in _PLAIN_TEXT:
        return iter([_plain_text(path)])
    if name == _QUORUM_SYNCED_NAME:
        return iter([read_synced(path)])
    if beginning == MAGIC or name in _RECORD_LOG_NAMES:
        is_quorum = name.startswith(_QUORUM_LOG_NAME)
        return read_record_log(os.fspath(path), with_records=with_records, is_quorum=is_quorum)
    _, _, suffixes = name.partition(".")
    if suffixes.startswith("index"):
        return read_index(os.fspath(path))
    if suffixes.startswith("timeindex"):
        return read_time_index(os.fspath(path))
    if suffixes.startswith("txnindex"):
        return read_transaction_index(os.fspath(path))
    if suffixes.startswith(_SEGMENT_SUFFIXES):
        return read_segment(os.fspath(path), with_records=with_records)
    return read_checked(os.fspath(path))


def _plain_text(path: Path) -> Entry:
    text = path.read_bytes()[:_PLAIN_TEXT_SIZE_BYTES_MAX].decode(errors="replace").strip()
    return {"type": "text", "meaning": _PLAIN_TEXT[path.name], "text": text}
