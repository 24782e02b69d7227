"""The command that rewrites a checkpoint for Spark's own connector."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minikafka_client.types import TopicPartition
from pyspark_minikafka.checkpoint import CheckpointError, main, rewrite
from pyspark_minikafka.stream_offsets import INITIAL, StreamOffset, by_topic

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
METADATA = '{"batchWatermarkMs":0,"conf":{}}'
OTHER = '{"logOffset":3}'


class Checkpoint:
    def __init__(self, path: Path) -> None:
        self.path = path
        for name in ("offsets", "commits"):
            (path / name).mkdir()

    def add(self, batch_id: int, *sources: str, is_done: bool = True) -> None:
        text = "\n".join(("v1", METADATA, *sources))
        (self.path / "offsets" / str(batch_id)).write_text(text)
        (self.path / "offsets" / f".{batch_id}.crc").write_bytes(b"crc")
        if is_done:
            (self.path / "commits" / str(batch_id)).write_text("v1\n{}")

    def sources(self, batch_id: int) -> list[str]:
        return (self.path / "offsets" / str(batch_id)).read_text().split("\n")[2:]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path)


def own(end: int, **starts: int) -> str:
    offset = StreamOffset(
        {T0: end, T1: 7},
        {TopicPartition("t", int(name[1:])): start for name, start in starts.items()},
        {"t": b"0123456789abcdef"},
        {T0: 3},
    )
    return json.dumps(offset.to_json())


def test_only_the_offsets_of_this_source_are_rewritten(checkpoint: Checkpoint) -> None:
    checkpoint.add(0, OTHER, own(4, p0=1, p1=2), "-")
    checkpoint.add(1, OTHER, own(9), "-")
    assert rewrite(checkpoint.path) == 2
    assert checkpoint.sources(0) == [OTHER, '{"t":{"0":4,"1":7}}', "-"]
    assert checkpoint.sources(1) == [OTHER, '{"t":{"0":9,"1":7}}', "-"]
    files = sorted(path.name for path in (checkpoint.path / "offsets").iterdir())
    assert files == ["0", "1"], "a checksum of the old content would make Spark fail"
    assert rewrite(checkpoint.path) == 0


def test_an_unfinished_first_batch_keeps_where_it_begins(checkpoint: Checkpoint) -> None:
    checkpoint.add(0, OTHER, own(4, p0=1, p1=2), is_done=False)
    assert rewrite(checkpoint.path) == 2
    initial = (checkpoint.path / "sources" / "1" / "0").read_bytes()
    assert initial == b'\0v1\n{"t":{"0":1,"1":2}}'
    assert json.loads(initial[4:]) == by_topic({T0: 1, T1: 2})


def test_an_unfinished_batch_with_new_partitions_has_to_be_run_first(
    checkpoint: Checkpoint,
) -> None:
    checkpoint.add(0, own(4, p0=1))
    checkpoint.add(1, own(9, p1=0), is_done=False)
    before = checkpoint.sources(0)
    with pytest.raises(CheckpointError, match=r"batch 1 is unfinished.*run the query once more"):
        rewrite(checkpoint.path)
    assert checkpoint.sources(0) == before


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (json.dumps(INITIAL.to_json()), "has no offsets yet"),
        ('{"$minikafka": {"version": 99}}', "written by a newer minikafka"),
    ],
)
def test_offsets_that_say_nothing_are_refused(
    checkpoint: Checkpoint, source: str, message: str
) -> None:
    checkpoint.add(0, source)
    with pytest.raises(CheckpointError, match=message):
        rewrite(checkpoint.path)


def test_another_format_of_the_offset_log_is_refused(checkpoint: Checkpoint) -> None:
    (checkpoint.path / "offsets" / "0").write_text("v2\n{}\n")
    with pytest.raises(CheckpointError, match="has the format 'v2'"):
        rewrite(checkpoint.path)


def test_the_command_reports_what_it_did(
    checkpoint: Checkpoint, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    checkpoint.add(0, own(4))
    assert main([str(checkpoint.path)]) == 0
    assert "1 files of" in capsys.readouterr().out
    assert main([str(tmp_path / "elsewhere")]) == 1
    assert "is not a query's checkpoint" in capsys.readouterr().err
