"""Segments and indexes: intact, damaged, cut off."""

import base64
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.cli.dump.segment import read_segment
from minikafka.coordinator.group.classic.records import GroupEntry
from minikafka.coordinator.group.records import CommittedOffset, OffsetEntry, OffsetKey
from minikafka.protocol.records import (
    Compression,
    ControlType,
    assemble_batch,
    compute_crc,
    encode_batch,
    encode_control_batch,
)
from minikafka.storage.aborted_index import encode_aborted
from minikafka.storage.disk import FileCache, RealDisk
from minikafka.storage.index import SparseIndex
from minikafka.storage.transactions import AbortedTransaction
from tests.cli.dump.conftest import (
    BATCHES,
    NOW_MS,
    RECORDS_PER_BATCH,
    batch,
    create,
    dump,
    dump_text,
    opened,
)
from tests.kit.examples import examples

FIRST = "00000000000000000000"
_CRC_START = 21


@pytest.fixture
def segment(data_dir: Path) -> Path:
    """The first segment of `orders-0`."""
    return data_dir / "orders-0" / f"{FIRST}.log"


@pytest.fixture
def index(segment: Path) -> Path:
    """Its index."""
    return segment.with_suffix(".index")


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


def test_batches_are_shown_with_their_headers(data_dir: Path) -> None:
    dumped = dump(data_dir / "orders-0" / f"{FIRST}.log")
    batches = dumped.of("batch")
    assert dumped.exit_code == 0
    assert not dumped.of("damage")
    assert len(batches) == BATCHES // 2 + 1
    first = batches[0]
    assert first == {
        "type": "batch",
        "position": 0,
        "size_bytes": len(batch(0)),
        "base_offset": 0,
        "last_offset": RECORDS_PER_BATCH - 1,
        "record_count": RECORDS_PER_BATCH,
        "leader_epoch": 0,
        "compression": "none",
        "timestamp_type": "CreateTime",
        "base_timestamp_ms": NOW_MS,
        "max_timestamp_ms": NOW_MS + RECORDS_PER_BATCH - 1,
        "is_transactional": False,
        "is_control": False,
        "crc": first["crc"],
        "producer_id": 7,
        "producer_epoch": 1,
        "base_sequence": 0,
        "last_sequence": RECORDS_PER_BATCH - 1,
    }
    ends = [entry["position"] + entry["size_bytes"] for entry in batches]
    assert [entry["position"] for entry in batches[1:]] == ends[:-1]


def test_a_directory_is_dumped_file_by_file(data_dir: Path) -> None:
    dumped = dump(data_dir / "orders-0")
    assert len(dumped.of("batch")) == BATCHES
    names = {Path(entry["path"]).name for entry in dumped.of("file")}
    assert {f"{FIRST}.log", f"{FIRST}.index", "leader-epoch-checkpoint"} <= names
    assert len(dumped.of("file")) == sum(1 for _ in (data_dir / "orders-0").iterdir())


def test_records_are_shown_on_request(segment: Path) -> None:
    assert not dump(segment).of("record")
    records = dump("--records", segment).of("record")
    assert [record["offset"] for record in records] == list(range((BATCHES // 2 + 1) * 10))
    assert records[3]["key"] == "key-3"
    assert records[3]["value"].startswith("value-3...")
    assert records[3]["timestamp_ms"] == NOW_MS + 3
    text = dump_text("--records", segment)
    assert '  3  2023-11-14T22:13:20.003Z  key "key-3"  value "value-3....' in text
    assert "10 records" in text
    assert "producer 7 epoch 1 sequence 0..9" in text


@pytest.mark.parametrize("compression", list(Compression))
def test_bytes_null_headers_and_codecs(tmp_path: Path, compression: Compression) -> None:
    path = tmp_path / f"{FIRST}.log"
    records = [
        (None, b"\xff\xfe", (("h", b"1"), ("h", None)), NOW_MS),
        (b"", None, (), -1),
    ]
    content = encode_batch(records, compression=compression, is_transactional=True)
    path.write_bytes(content)
    dumped = dump("--records", path)
    assert dumped.of("batch")[0]["compression"] == compression.name.lower()
    assert dumped.of("batch")[0]["is_transactional"] is True
    first, second = dumped.of("record")
    assert first["key"] is None
    assert first["value"] == {"base64": base64.b64encode(b"\xff\xfe").decode()}
    assert first["headers"] == [{"key": "h", "value": "1"}, {"key": "h", "value": None}]
    assert (second["key"], second["value"], second["timestamp_ms"]) == ("", None, -1)
    text = dump_text("--records", path)
    assert 'key null  value {"base64": "//4="}  headers h="1" h=null' in text
    assert '  1  -  key ""  value null' in text


def test_a_flipped_bit_is_shown_and_so_are_the_batches_after_it(segment: Path) -> None:
    size = len(batch(0))
    flip(segment, size + size // 2)
    dumped = dump("--records", segment)
    assert dumped.exit_code == 1
    assert "1 damaged place in 1 file" in dumped.stderr
    (damaged,) = dumped.of("damage")
    assert damaged["position"] == size
    assert damaged["size_bytes"] == len(batch(1))
    assert "wrong CRC" in damaged["reason"]
    assert str(segment) not in damaged["reason"]
    assert [entry["base_offset"] for entry in dumped.of("batch")] == [0, 20, 30, 40, 50, 60]
    assert f"DAMAGE at {size}, {len(batch(1))} bytes: " in dump_text(segment)


def test_a_batch_with_a_damaged_length_is_skipped_by_the_index(segment: Path) -> None:
    flip(segment, len(batch(0)) + 9)
    (damaged,) = dump(segment).of("damage")
    assert damaged["position"] == len(batch(0))
    segment.with_suffix(".index").unlink()
    dumped = dump(segment)
    assert dumped.of("damage")[0]["size_bytes"] == segment.stat().st_size - len(batch(0))
    assert len(dumped.of("batch")) == 1


def test_a_batch_with_a_damaged_magic_is_skipped_by_its_length(segment: Path) -> None:
    segment.with_suffix(".index").unlink()
    flip(segment, len(batch(0)) + 16)
    dumped = dump(segment)
    assert len(dumped.of("batch")) == BATCHES // 2
    assert dumped.of("damage")[0]["size_bytes"] == len(batch(1))


def test_a_torn_end_is_damage(segment: Path) -> None:
    content = segment.read_bytes()
    segment.write_bytes(content[:-5])
    (damaged,) = dump(segment).of("damage")
    assert damaged["reason"] == "a truncated batch"
    segment.write_bytes(content + b"\0" * 30)
    (damaged,) = dump(segment).of("damage")
    assert (damaged["position"], damaged["size_bytes"]) == (len(content), 30)


def test_offsets_that_decrease_are_damage(tmp_path: Path) -> None:
    path = tmp_path / f"{10:020d}.log"
    path.write_bytes(encode_batch([(b"k", b"v", (), NOW_MS)], base_offset=3))
    (damaged,) = dump(path).of("damage")
    assert damaged["reason"] == "base offset 3 instead of 10 or more"


def test_records_that_cannot_be_decoded_are_damage(tmp_path: Path) -> None:
    path = tmp_path / f"{FIRST}.log"
    content = assemble_batch(
        b"nonsense", record_count=1, last_offset_delta=0, base_timestamp=0, max_timestamp=0
    )
    path.write_bytes(content)
    assert dump(path).exit_code == 0
    dumped = dump("--records", path)
    assert dumped.exit_code == 1
    assert (
        "the CRC is correct, but the records cannot be decoded" in dumped.of("damage")[0]["reason"]
    )


def test_an_unknown_codec_is_named(tmp_path: Path) -> None:
    path = tmp_path / f"{FIRST}.log"
    content = encode_batch([(b"k", b"v", (), NOW_MS)])
    content[22] |= 7
    content[17:21] = compute_crc(content, 0, len(content)).to_bytes(4, "big")
    path.write_bytes(content)
    assert dump(path).of("batch")[0]["compression"] == "unknown (7)"


def test_markers_are_named(tmp_path: Path) -> None:
    path = tmp_path / f"{FIRST}.log"
    markers = [
        encode_control_batch(
            kind, producer_id=1, producer_epoch=0, coordinator_epoch=4, timestamp=NOW_MS,
            base_offset=offset,
        )
        for offset, kind in enumerate((ControlType.ABORT, ControlType.COMMIT))
    ]  # fmt: skip
    leader_change = encode_batch([(b"\0\0\0\2", b"", (), NOW_MS)], is_control=True, base_offset=2)
    unreadable = encode_batch([(b"", b"", (), NOW_MS)], is_control=True, base_offset=3)
    path.write_bytes(b"".join([*markers, leader_change, unreadable]))
    dumped = dump("--records", path)
    names = [record["control"] for record in dumped.of("record")]
    assert names == ["abort", "commit", "type 2", "unreadable"]
    assert "control commit" in dump_text("--records", path)
    assert "transactional  control" in dump_text(path)


def test_a_delete_horizon_is_shown(tmp_path: Path) -> None:
    path = tmp_path / f"{FIRST}.log"
    path.write_bytes(
        encode_batch([(b"k", None, (), NOW_MS)], delete_horizon_ms=NOW_MS + 5, last_offset_delta=0)
    )
    (entry,) = dump(path).of("batch")
    assert entry["delete_horizon_ms"] == NOW_MS + 5
    assert "base_timestamp_ms" not in entry
    assert "delete horizon 2023-11-14T22:13:20.005Z" in dump_text(path)


def test_group_records_are_decoded(tmp_path: Path) -> None:
    directory = tmp_path / "__consumer_offsets-3"
    directory.mkdir()
    path = directory / f"{FIRST}.log"
    key = OffsetKey("billing", "orders", 2)
    records = [
        OffsetEntry(key, CommittedOffset(5, 0, "note", NOW_MS)).encode(),
        OffsetEntry(key, None).encode(),
        GroupEntry("billing", None).encode(),
        (b"\0\x09", b""),
        (b"\0", b""),
    ]
    path.write_bytes(encode_batch([(key, value, (), NOW_MS) for key, value in records]))
    decoded = [record["decoded"] for record in dump("--records", path).of("record")]
    assert decoded[0] == {
        "kind": "offset",
        "group_id": "billing",
        "topic": "orders",
        "partition": 2,
        "committed": {
            "offset": 5,
            "leader_epoch": 0,
            "metadata": "note",
            "commit_timestamp_ms": NOW_MS,
            "expire_timestamp_ms": -1,
        },
    }
    assert decoded[1]["committed"] is None
    assert decoded[2] == {"kind": "group", "group_id": "billing", "deleted": True}
    assert decoded[3] == {"kind": "unknown", "key_version": 9}
    assert decoded[4]["kind"] == "unreadable"
    assert "kind offset  group id billing  topic orders" in dump_text("--records", path)


@settings(max_examples=examples(40))
@given(position=st.integers(min_value=0), bit=st.integers(0, 7))
def test_any_flipped_bit_that_a_crc_covers_is_found(position: int, bit: int) -> None:
    first = batch(0)
    content = first + batch(1)
    at = _CRC_START + position % (len(first) - _CRC_START)  # in the first batch
    damaged = bytearray(content)
    damaged[at] ^= 1 << bit
    assert list(_damage_in(bytes(damaged)))


def _damage_in(content: bytes) -> list[str]:
    with tempfile.NamedTemporaryFile(suffix=".log") as file:
        file.write(content)
        file.flush()
        entries = list(read_segment(file.name, with_records=False))
    return [entry["reason"] for entry in entries if entry["type"] == "damage"]


# --- indexes ------------------------------------------------------------------------------------


def test_index_entries_are_those_that_storage_reads(index: Path) -> None:
    stored = SparseIndex(FileCache(RealDisk()), str(index.with_suffix("")))
    dumped = dump(index)
    expected = list(stored.entries())
    assert dumped.exit_code == 0
    assert len(expected) == BATCHES // 2
    shown = [(entry["offset"], entry["position"]) for entry in dumped.of("index_entry")]
    assert shown == expected
    assert "offset 19  position " in dump_text(index)
    dumped = dump(index.with_suffix(".timeindex"))
    shown = [(entry["timestamp_ms"], entry["offset"]) for entry in dumped.of("time_index_entry")]
    assert shown == list(stored.timestamps())
    assert len(shown) == BATCHES // 2
    assert dumped.exit_code == 0
    assert "  offset 19" in dump_text(index.with_suffix(".timeindex"))


def test_zeros_after_the_entries_are_not_shown(index: Path) -> None:
    """Kafka makes the files of an active segment as large as they may get."""
    for path, kind in (
        (index, "index_entry"),
        (index.with_suffix(".timeindex"), "time_index_entry"),
    ):
        with path.open("ab") as file:
            file.write(bytes(96))
        dumped = dump(path)
        assert (dumped.exit_code, len(dumped.of(kind))) == (0, BATCHES // 2)


def test_a_transaction_index(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.txnindex"
    first, second = AbortedTransaction(7, 3, 9, 10), AbortedTransaction(8, 4, 12, 13)
    path.write_bytes(encode_aborted([first, second]))
    dumped = dump(path)
    assert dumped.exit_code == 0
    assert [tuple(entry.values())[1:] for entry in dumped.of("aborted_transaction")] == [
        first,
        second,
    ]
    path.write_bytes(encode_aborted([second, first]) + b"\0\1" + bytes(32) + b"rest")
    assert [entry["reason"] for entry in dump(path).of("damage")] == [
        "this entry is not above the one before it",
        "an entry of version 1; only 0 is known",
        "an incomplete entry",
    ]


def test_a_damaged_index_entry_is_shown(index: Path) -> None:
    flip(index, 15)
    (damaged,) = dump(index).of("damage")
    assert (damaged["position"], damaged["size_bytes"]) == (8, 8)
    assert damaged["reason"].startswith("the segment has no batch at position")


def test_an_incomplete_index_entry_is_shown(index: Path) -> None:
    size = index.stat().st_size
    with index.open("ab") as file:
        file.write(b"abc")
    (damaged,) = dump(index).of("damage")
    assert (damaged["position"], damaged["size_bytes"]) == (size, 3)


def test_an_index_of_another_segment_is_damage(data_dir: Path) -> None:
    directory = data_dir / "orders-0"
    second = next(
        path for path in sorted(directory.glob("*.index")) if path.name != f"{FIRST}.index"
    )
    shutil.copy(directory / f"{FIRST}.index", second)
    reasons = {entry["reason"] for entry in dump(second).of("damage")}
    assert any(reason.startswith("the segment has ") for reason in reasons)
    second.with_suffix(".log").unlink()
    assert dump(second).exit_code == 0


def test_index_entries_out_of_order_are_damage(index: Path) -> None:
    content = index.read_bytes()
    index.write_bytes(content[8:16] + content[:8])
    times = index.with_suffix(".timeindex")
    content = times.read_bytes()
    times.write_bytes(content[12:24] + content[:12])
    for path in (index, times):
        reasons = [entry["reason"] for entry in dump(path).of("damage")]
        assert reasons == ["this entry is not above the one before it"]


def test_a_dump_changes_nothing(data_dir: Path) -> None:
    before = {path: path.read_bytes() for path in data_dir.rglob("*") if path.is_file()}
    for path in before:
        dump("--records", path)
    assert {path: path.read_bytes() for path in data_dir.rglob("*") if path.is_file()} == before


def test_a_directory_in_use_can_be_dumped(tmp_path: Path) -> None:
    for directory in opened(tmp_path / "data"):
        log = create(directory, "orders")
        log.append_as_leader(batch(0), leader_epoch=0, now_ms=NOW_MS)
        assert len(dump(tmp_path / "data" / "orders-0").of("batch")) == 1
        log.append_as_leader(batch(1), leader_epoch=0, now_ms=NOW_MS)
        assert len(dump(tmp_path / "data" / "orders-0").of("batch")) == 2
