"""Rewrites a query's checkpoint so that Spark's own connector can continue from it.

    python -m pyspark_minikafka.checkpoint checkpoints/orders

Stop the query first. The command removes what this source stores beside the offsets (topic ids and
leader epochs), which the other connector cannot read. This source can still continue from the
checkpoint, too; it looks those up again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Final, cast

from .stream_offsets import METADATA_KEY, Json, StreamOffset, StreamOffsetError, by_topic, from_json

_LOG_VERSION: Final = "v1"
_LINES_BEFORE_SOURCES: Final = 2
"""The version, and the query's own metadata."""

_INITIAL_OFFSETS_PREFIX: Final = b"\0v1\n"
"""What `KafkaSourceInitialOffsetWriter` writes before the JSON (SPARK-19517)."""


class CheckpointError(ValueError):
    """A checkpoint cannot be rewritten; nothing was changed."""


def rewrite(checkpoint: Path) -> int:
    """Make a checkpoint readable for Spark's own connector.

    Files are replaced one by one, and each replacement is atomic; after a crash, rewrite again.

    Returns:
        The number of changed files.

    Raises:
        CheckpointError: it is not a checkpoint, or an unfinished batch has to be run first.
    """
    folder = checkpoint / "offsets"
    batches = sorted(int(path.name) for path in _files(folder) if path.name.isdecimal())
    if not batches:
        raise CheckpointError(f"{folder} has no offsets: {checkpoint} is not a query's checkpoint")
    changed: dict[Path, bytes] = {}
    for batch_id in batches:
        path = folder / str(batch_id)
        lines = path.read_text().split("\n")
        if lines[0] != _LOG_VERSION:
            raise CheckpointError(
                f"{path} has the format {lines[0][:20]!r}; only {_LOG_VERSION!r} can be rewritten"
            )
        is_done = (checkpoint / "commits" / str(batch_id)).exists()
        for index, text in enumerate(lines[_LINES_BEFORE_SOURCES:]):
            offset = _own_offset(text, path)
            if offset is None:
                continue
            if not is_done and offset.starts:
                if batch_id:
                    raise CheckpointError(
                        f"batch {batch_id} is unfinished, and begins at offsets that only this "
                        f"source knows; run the query once more before you rewrite {checkpoint}"
                    )
                initial = _INITIAL_OFFSETS_PREFIX + _encoded(by_topic(offset.starts))
                changed[checkpoint / "sources" / str(index) / "0"] = initial
            lines[_LINES_BEFORE_SOURCES + index] = _encoded(by_topic(offset.offsets)).decode()
            changed[path] = "\n".join(lines).encode()
    for path, content in changed.items():
        _replace(path, content)
    return len(changed)


def _files(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _own_offset(text: str, path: Path) -> StreamOffset | None:
    """The offset of a source; None if it is another source's, or already rewritten."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict) or METADATA_KEY not in found:
        return None
    try:
        offset = from_json(cast("dict[str, object]", found))
    except StreamOffsetError as error:
        raise CheckpointError(f"{path}: {error}") from None
    if offset.is_initial:
        raise CheckpointError(f"{path} has no offsets yet; begin with a new checkpoint")
    return offset


def _encoded(offsets: Json) -> bytes:
    return json.dumps(offsets, separators=(",", ":")).encode()


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.rewritten.tmp")
    unfinished.write_bytes(content)
    # Hadoop keeps a checksum beside each local file, and does without if there is none.
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    os.replace(unfinished, path)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m pyspark_minikafka.checkpoint",
        description="Rewrite a stopped query's checkpoint so that Spark's own connector for Kafka "
        "can continue from it. This source can still do so, too.",
    )
    parser.add_argument("checkpoint", type=Path, help="the query's checkpointLocation, a directory")
    checkpoint: Path = parser.parse_args(arguments).checkpoint
    try:
        changed = rewrite(checkpoint)
    except (CheckpointError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(
        f"{changed} files of {checkpoint} rewritten; format('kafka') can continue from it\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
