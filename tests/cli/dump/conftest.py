"""Files as the storage floor writes them, and what the dump says about them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from minikafka.cli.main import main
from minikafka.protocol.records import Compression, encode_batch
from minikafka.storage.disk import RealDisk
from minikafka.storage.log import Log
from minikafka.storage.log_config import LogConfig
from minikafka.storage.log_directory import LogDirectory

NOW_MS = 1_700_000_000_000
BATCHES = 12
RECORDS_PER_BATCH = 10


@dataclass(frozen=True)
class Dumped:
    """The outcome of one `log dump --json`."""

    exit_code: int
    entries: list[dict[str, Any]]
    stderr: str

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Entries of one type."""
        return [entry for entry in self.entries if entry["type"] == kind]


def dump(*words: str | Path) -> Dumped:
    """Run `log dump --json`."""
    result = CliRunner().invoke(main, ["log", "dump", "--json", *map(str, words)])
    assert result.exit_code in {0, 1}, result.stderr
    entries = [json.loads(line) for line in result.stdout.splitlines()]
    return Dumped(result.exit_code, entries, result.stderr)


def dump_text(*words: str | Path) -> str:
    """Run `log dump` for people; damage or not."""
    result = CliRunner().invoke(main, ["log", "dump", *map(str, words)])
    assert result.exit_code in {0, 1}, result.stderr
    return result.stdout


def batch(number: int, compression: Compression = Compression.NONE) -> bytes:
    """Batch `number` of an idempotent producer: values of 500 bytes, so that the index fills."""
    first = number * RECORDS_PER_BATCH
    records = [
        (b"key-%d" % offset, b"value-%d" % offset + b"." * 500, (), NOW_MS + offset)
        for offset in range(first, first + RECORDS_PER_BATCH)
    ]
    return bytes(
        encode_batch(
            records,
            compression=compression,
            producer_id=7,
            producer_epoch=1,
            base_sequence=first,
        )
    )


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory that was closed, with partition `orders-0` of two segments in it."""
    path = tmp_path / "data"
    for directory in opened(path):
        log = create(directory, "orders")
        for number in range(BATCHES):
            log.append_as_leader(batch(number), leader_epoch=number // 6, now_ms=NOW_MS)
            if number == BATCHES // 2:
                log.roll(NOW_MS)
        directory.prepare_checkpoint().run()
    return path


def opened(path: Path) -> Iterator[LogDirectory]:
    """A log directory that is closed cleanly afterwards."""
    directory = LogDirectory.open(RealDisk(), str(path), node_id=1, new_cluster_id="cluster")
    directory.open_all(lambda _topic: LogConfig(), now_ms=NOW_MS)
    yield directory
    directory.close()


def create(directory: LogDirectory, topic: str) -> Log:
    """A new partition 0."""
    return directory.create_log(topic, bytes(range(16)), 0, LogConfig(), now_ms=NOW_MS)
