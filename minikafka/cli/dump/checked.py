"""Checked files: producer snapshots, leader epochs, checkpoints, and the ids of a directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from ...protocol.crc import crc32c
from ...storage.checked_file import CHECKED_FILE_SIZE_BYTES_MAX, DamagedFile, Plain, unpack
from ...storage.checkpoints import Checkpoint
from ...storage.leader_epochs import LeaderEpochCache
from ...storage.snapshot_file import decode_snapshot
from ..output import json_bytes
from .entry import Entries, Entry, damage, open_for_reading

_CRC_SIZE_BYTES: Final = 4


def read_checked(path: str) -> Entries:
    """Yield ``file_kind``, then the entries of a file of that kind, and ``damage``.

    Raises:
        OSError: the file cannot be read.
    """
    file = open_for_reading(path)
    content = file.pread(0, min(file.size(), CHECKED_FILE_SIZE_BYTES_MAX))
    _, content = decode_snapshot(content)  # a snapshot has Kafka's part before it
    body = content[_CRC_SIZE_BYTES:]
    if len(content) < _CRC_SIZE_BYTES:
        yield damage(f"{len(content)} bytes are too few for a file with a CRC", 0, len(content))
        return
    if crc32c(body) != int.from_bytes(content[:_CRC_SIZE_BYTES], "big"):
        yield damage(
            "the CRC does not match the content (or the file is not minikafka's)",
            0,
            len(content),
        )
        return
    try:
        kind, value = _kind_and_value(unpack(body))
    except (ValueError, TypeError) as error:
        yield damage(
            f"the CRC is correct, but the content cannot be read: {error}", 0, len(content)
        )
        return
    yield {"type": "file_kind", "kind": kind}
    try:
        yield from _READERS.get(kind, _any_value)(value, path, content)
    except (ValueError, TypeError) as error:
        yield damage(f"the CRC is correct, but this is not a {kind} file: {error}", 0, len(content))


def _kind_and_value(unpacked: Any) -> tuple[str, Any]:
    kind, value = unpacked
    if not isinstance(kind, str):
        raise TypeError(f"its kind is {kind!r}")
    return kind, value


def _producer_snapshot(value: Any, path: str, content: bytes) -> Iterator[Entry]:
    del content
    offset, producers, (open_transactions, _, aborted), *aborted_from = value
    entry: Entry = {"type": "producer_snapshot", "offset": offset, "producers": len(producers)}
    if aborted_from:  # those before are in the snapshot of that offset
        entry["aborted_from"] = aborted_from[0]
    yield entry
    name = Path(path).name.partition(".")[0]
    if name.isdecimal() and int(name) != offset:
        yield damage(f"a snapshot as of offset {offset} in a file named after offset {int(name)}")
    for producer_id, epoch, coordinator_epoch, batches in producers:
        yield {
            "type": "producer",
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "coordinator_epoch": coordinator_epoch,
            "batches": [
                dict(
                    zip(
                        (
                            "base_sequence",
                            "last_sequence",
                            "base_offset",
                            "last_offset",
                            "timestamp_ms",
                        ),
                        batch,
                        strict=True,
                    )
                )
                for batch in batches or ()  # None if only markers are known
            ],
        }
    for producer_id, first_offset, producer_epoch in open_transactions:
        yield {
            "type": "open_transaction",
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "first_offset": first_offset,
        }
    for producer_id, first_offset, last_offset, _ in aborted:
        yield {
            "type": "aborted_transaction",
            "producer_id": producer_id,
            "first_offset": first_offset,
            "last_offset": last_offset,
        }


def _leader_epochs(value: Any, path: str, content: bytes) -> Iterator[Entry]:
    for epoch, start_offset in value:
        yield {"type": "leader_epoch", "epoch": epoch, "start_offset": start_offset}
    try:
        LeaderEpochCache.decode(content, path=path)
    except DamagedFile as error:
        yield damage(str(error).removeprefix(f"{path}: "))


def _checkpoint(value: Any, path: str, content: bytes) -> Iterator[Entry]:
    del path, content
    for topic_id, partition, offset in value:
        yield {
            "type": "checkpoint",
            "topic_id": bytes(topic_id).hex(),
            "partition": partition,
            "offset": offset,
        }


def _partition(value: Any, path: str, content: bytes) -> Iterator[Entry]:
    del path, content
    topic, partition, topic_id = value
    yield {
        "type": "partition",
        "topic": topic,
        "partition": partition,
        "topic_id": bytes(topic_id).hex(),
    }


def _data_directory(value: Any, path: str, content: bytes) -> Iterator[Entry]:
    del path, content
    version, cluster_id, node_id = value
    yield {
        "type": "data_directory",
        "format_version": version,
        "cluster_id": cluster_id,
        "node_id": node_id,
    }


def _any_value(value: Any, path: str, content: bytes) -> Iterator[Entry]:
    """The plain value of a kind that this version does not know."""
    del path, content
    yield {"type": "value", "value": json_value(value)}


def json_value(value: Plain) -> Any:
    """A msgpack value for JSON; bytes as `json_bytes` renders them."""
    if isinstance(value, bytes):
        return json_bytes(value)
    if isinstance(value, dict):
        return {name: json_value(each) for name, each in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    return [json_value(each) for each in value]


_READERS: Final[dict[str, Callable[[Any, str, bytes], Iterator[Entry]]]] = {
    "producer-snapshot": _producer_snapshot,
    "leader-epochs": _leader_epochs,
    "partition": _partition,
    "data-directory": _data_directory,
    **{str(kind): _checkpoint for kind in Checkpoint},
}
