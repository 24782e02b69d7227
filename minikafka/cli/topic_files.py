"""``minikafka topic dump`` and ``topic load``: the records of a topic in a file, and back."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import click

from .failure import CommandFailed
from .output import Progress, count_of, print_json
from .target import Target, client_command, connected, require_topics

if TYPE_CHECKING:
    from .record_files import FileFormat, Reading

_STEP: Final = 1000

_format = click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "msgpack"]),
    help="JSON lines or msgpack.  [default: msgpack if FILE ends in .msgpack, else jsonl]",
)


@click.command("dump")
@click.argument("topic")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@_format
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@client_command
async def dump(
    target: Target, topic: str, file: Path, form: FileFormat | None, force: bool
) -> None:
    r"""Write the records that TOPIC has now to FILE (- for stdout).

    Each with its partition, key, value, headers and timestamp. Records of open and aborted
    transactions are left out. `minikafka topic load` brings them back, here or elsewhere.

    \b
    Examples:
      minikafka topic dump orders orders.jsonl
      minikafka topic dump orders orders.msgpack --bootstrap production:9092
    """
    from minikafka_client.sync import Reader

    from .ranges import whole_ranges
    from .record_files import FileRecord, Writing

    async with connected(target) as admin:
        await require_topics(admin, [topic])
        ranges = await whole_ranges(admin, [topic], isolation_level="read_committed")
    with (
        _to_write(file, force=force) as output,
        Reader(
            target.bootstrap, ranges, isolation_level="read_committed", **target.connection
        ) as reader,
        Progress("dumping", None) as progress,
    ):
        writing = Writing(output, form or _form_of(file), topic, len(ranges))
        for run in reader:
            for record in run.records:
                writing.record(
                    FileRecord(
                        record.partition,
                        record.offset,
                        record.timestamp_ms,
                        record.key,
                        record.value,
                        tuple((name, value) for name, value in record.headers),
                    )
                )
            progress.update(writing.size_bytes, count_of(writing.records, "record"))
        writing.end()
    if str(file) == "-":
        return
    if target.as_json:
        print_json({"topic": topic, "file": str(file), "records": writing.records})
        return
    click.echo(f"dumped {topic}: {count_of(writing.records, 'record')} to {file}")


@click.command("load")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--topic", help="Load into this topic.  [default: the one that was dumped]")
@_format
@client_command
async def load(target: Target, file: Path, topic: str | None, form: FileFormat | None) -> None:
    r"""Send the records of FILE (- for stdin), which `minikafka topic dump` wrote.

    Each goes to the partition that it was in, with its key, value, headers and timestamp, in the
    order that it had there. A topic that does not exist is created with as many partitions.

    \b
    Example:
      minikafka topic load orders.jsonl --topic orders-copy
    """
    from .record_files import MalformedFileError, Reading

    with _to_read(file) as source:
        try:
            reading = Reading(source, form or _form_of(file))
            name = topic or reading.topic
            async with connected(target) as admin:
                existing = await admin.list_topics(include_internal=True)
                if name not in existing:
                    from minikafka_client import NewTopic

                    await admin.create_topics([NewTopic(name, reading.partitions)])
                described = (await admin.describe_topics([name]))[name]
            if len(described.partitions) < reading.partitions:
                raise CommandFailed(
                    f"topic {name!r} has {count_of(len(described.partitions), 'partition')} and "
                    f"the records are from {reading.partitions}; name another one with --topic"
                )
            records = _send(target, name, reading, source, file)
        except MalformedFileError as error:
            raise CommandFailed(f"{file}: {error}") from None
    if target.as_json:
        print_json({"topic": name, "file": str(file), "records": records})
        return
    click.echo(f"loaded {name}: {count_of(records, 'record')} from {file}")


def _send(target: Target, topic: str, reading: Reading, source: IO[bytes], file: Path) -> int:
    from minikafka_client.sync import Writer

    is_file = str(file) != "-"
    total = file.stat().st_size if is_file else None
    records = 0
    with (
        Writer(target.bootstrap, **target.connection) as writer,
        Progress("loading", total) as progress,
    ):
        for record in reading.records():
            writer.send(
                topic,
                record.value,
                record.key,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
                headers=record.headers,
            )
            records += 1
            if records % _STEP == 0:
                progress.update(source.tell() if is_file else 0, count_of(records, "record"))
    return records


def _form_of(file: Path) -> FileFormat:
    return "msgpack" if file.suffix == ".msgpack" else "jsonl"


@contextmanager
def _to_write(file: Path, *, force: bool) -> Generator[IO[bytes]]:
    if str(file) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with file.open("wb" if force else "xb") as output:
            yield output
    except FileExistsError:
        raise CommandFailed(f"{file} exists; --force replaces it") from None
    except OSError as error:
        raise CommandFailed(f"cannot write {file}: {error.strerror or error}") from None


@contextmanager
def _to_read(file: Path) -> Generator[IO[bytes]]:
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    try:
        source = file.open("rb")
    except OSError as error:
        raise CommandFailed(f"cannot read {file}: {error.strerror or error}") from None
    with source:
        yield source
