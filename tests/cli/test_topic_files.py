"""`minikafka topic dump` and `topic load` against a live broker."""

import json
from pathlib import Path

import pytest

from minikafka_client import ConsumerRecord, TopicPartition
from minikafka_client.sync import Reader, Writer
from tests.cli.conftest import CommandLine

RECORDS: list[tuple[int, bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]] = [
    (0, b"k", b"one", 1_700_000_000_001, [("h", b"x"), ("h", None)]),
    (1, None, b"\xff\x00", 1_700_000_000_000, []),
    (1, b"", None, 1_700_000_000_002, [("\u00e9", b"\xff")]),
    (0, b"k", "zwei \u2028\n".encode(), 1_600_000_000_000, []),
]


def fill(bootstrap: str, topic: str) -> None:
    with Writer(bootstrap) as writer:
        for partition, key, value, timestamp_ms, headers in RECORDS:
            writer.send(
                topic,
                value,
                key,
                partition=partition,
                timestamp_ms=timestamp_ms,
                headers=headers,
            )


def content(bootstrap: str, topic: str) -> dict[int, list[tuple[object, ...]]]:
    def of(record: ConsumerRecord) -> tuple[object, ...]:
        return record.key, record.value, record.timestamp_ms, list(record.headers)

    found: dict[int, list[tuple[object, ...]]] = {0: [], 1: []}
    ranges = {TopicPartition(topic, number): (0, 2) for number in found}
    with Reader(bootstrap, ranges) as reader:
        for run in reader:
            found[run.partition] += map(of, run.records)
    return found


@pytest.mark.parametrize("suffix", ["jsonl", "msgpack"])
def test_what_was_dumped_comes_back(cli: CommandLine, tmp_path: Path, suffix: str) -> None:
    topic, copy, file = f"dumped-{suffix}", f"copy-{suffix}", str(tmp_path / f"d.{suffix}")
    cli.ok("topic", "create", topic, "--partitions", "2")
    fill(cli.bootstrap, topic)
    assert cli.ok("topic", "dump", topic, file) == f"dumped {topic}: 4 records to {file}\n"
    loaded = cli.json("topic", "load", file, "--topic", copy)
    assert loaded == {"topic": copy, "file": file, "records": 4}
    assert content(cli.bootstrap, copy) == content(cli.bootstrap, topic)
    assert len(content(cli.bootstrap, copy)[1]) == 2


def test_a_dump_can_be_piped(cli: CommandLine) -> None:
    cli.ok("topic", "create", "piped", "--partitions", "2")
    fill(cli.bootstrap, "piped")
    dumped = cli.ok("topic", "dump", "piped", "-")
    assert json.loads(dumped.splitlines()[-1]) == {"records": 4}
    cli.ok("topic", "load", "-", "--topic", "piped-back", stdin=dumped)
    assert content(cli.bootstrap, "piped-back") == content(cli.bootstrap, "piped")


def test_nothing_is_overwritten_or_loaded_by_accident(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "there"
    cli.ok("topic", "create", "two", "--partitions", "2")
    cli.ok("topic", "create", "one", "--partitions", "1")
    file.write_text("mine")
    assert "--force replaces it" in cli.fails("topic", "dump", "two", str(file))
    assert "is not JSON" in cli.fails("topic", "load", str(file))
    cli.ok("topic", "dump", "two", str(file), "--force")
    assert "has 1 partition" in cli.fails("topic", "load", str(file), "--topic", "one")
    assert "cannot read" in cli.fails("topic", "load", str(tmp_path / "nowhere"))
