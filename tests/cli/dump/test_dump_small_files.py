"""Snapshots, leader epochs, checkpoints, metadata, and files of no kind."""

import json
import os
from pathlib import Path

import pytest

from minikafka.cli.dump.checked import json_value
from minikafka.metadata.records import (
    PartitionRecord,
    ScramCredentialRecord,
    TopicRecord,
    encode_record,
)
from minikafka.storage.checked_file import Plain, encode_checked
from minikafka.storage.checkpoints import Checkpoint
from minikafka.storage.disk import RealDisk
from minikafka.storage.record_log import RecordLog
from tests.cli.dump.conftest import BATCHES, RECORDS_PER_BATCH, dump, dump_text

TOPIC_ID = bytes(range(16))
END = BATCHES * RECORDS_PER_BATCH


def test_a_producer_snapshot(data_dir: Path) -> None:
    path = data_dir / "orders-0" / f"{END:020d}.snapshot"
    dumped = dump(path)
    assert dumped.exit_code == 0
    assert dumped.of("producer_snapshot") == [
        {"type": "producer_snapshot", "offset": END, "producers": 1}
    ]
    (producer,) = dumped.of("producer")
    assert (producer["producer_id"], producer["producer_epoch"]) == (7, 1)
    last = producer["batches"][-1]
    assert (last["base_sequence"], last["last_offset"]) == (END - RECORDS_PER_BATCH, END - 1)
    text = dump_text(path)
    assert "producer 7  epoch 1  coordinator epoch -1" in text
    assert f"  sequence {END - RECORDS_PER_BATCH}..{END - 1}  offset" in text


def test_transactions_in_a_producer_snapshot(tmp_path: Path) -> None:
    path = tmp_path / f"{9:020d}.snapshot"
    transactions = [[[7, 5, 0]], [], [[8, 1, 3, 5]]]
    path.write_bytes(encode_checked("producer-snapshot", [9, [[6, 2, 0, None]], transactions]))
    dumped = dump(path)
    assert dumped.of("producer")[0]["batches"] == []  # only a marker is known
    assert dumped.of("open_transaction")[0]["first_offset"] == 5
    assert dumped.of("aborted_transaction")[0]["last_offset"] == 3
    assert "open transaction  producer id 7  producer epoch 0  first offset 5" in dump_text(path)


def test_a_snapshot_with_the_wrong_name_is_damage(data_dir: Path) -> None:
    path = data_dir / "orders-0" / f"{END:020d}.snapshot"
    wrong = path.rename(path.with_name(f"{5:020d}.snapshot"))
    (damaged,) = dump(wrong).of("damage")
    assert damaged["reason"] == f"a snapshot as of offset {END} in a file named after offset 5"


def test_leader_epochs(data_dir: Path) -> None:
    path = data_dir / "orders-0" / "leader-epoch-checkpoint"
    assert [(entry["epoch"], entry["start_offset"]) for entry in dump(path).of("leader_epoch")] == [
        (0, 0),
        (1, 60),
    ]
    assert "epoch 1  start offset 60" in dump_text(path)
    path.write_bytes(encode_checked("leader-epochs", [[3, 10], [2, 20]]))
    dumped = dump(path)
    assert dumped.exit_code == 1
    assert "both have to rise" in dumped.of("damage")[0]["reason"]


def test_partition_and_directory_ids(data_dir: Path) -> None:
    assert dump(data_dir / "orders-0" / "partition.metadata").of("partition") == [
        {"type": "partition", "topic": "orders", "partition": 0, "topic_id": TOPIC_ID.hex()}
    ]
    assert dump(data_dir / "meta").of("data_directory") == [
        {"type": "data_directory", "format_version": 1, "cluster_id": "cluster", "node_id": 1}
    ]


@pytest.mark.parametrize("kind", list(Checkpoint))
def test_checkpoints(data_dir: Path, kind: Checkpoint) -> None:
    (entry,) = dump(data_dir / kind).of("checkpoint")
    assert (entry["topic_id"], entry["partition"]) == (TOPIC_ID.hex(), 0)
    assert 0 <= entry["offset"] <= END


def test_lock_and_marker(data_dir: Path) -> None:
    (lock,) = dump(data_dir / ".lock").of("text")
    assert lock["text"] == str(os.getpid())
    assert "meaning the last broker here stopped cleanly" in dump_text(data_dir / "clean-shutdown")


def test_a_whole_data_directory_is_intact(data_dir: Path) -> None:
    dumped = dump(data_dir)
    assert dumped.exit_code == 0
    assert len(dumped.of("file")) >= 7


def test_a_flipped_bit_in_a_checked_file(data_dir: Path) -> None:
    path = data_dir / "meta"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    dumped = dump(path)
    assert dumped.exit_code == 1
    assert "the CRC does not match" in dumped.of("damage")[0]["reason"]


@pytest.mark.parametrize("content", [b"", b"abc"])
def test_a_file_that_is_too_short(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "meta"
    path.write_bytes(content)
    assert "too few" in dump(path).of("damage")[0]["reason"]


def test_a_file_of_unknown_kind_is_shown_as_plain_values(tmp_path: Path) -> None:
    path = tmp_path / "vote"
    value: dict[str, Plain] = {"term": 3, "voted_for": None, "peers": [1, b"\xff"]}
    path.write_bytes(encode_checked("raft-vote", value))
    dumped = dump(path)
    assert dumped.of("file_kind") == [{"type": "file_kind", "kind": "raft-vote"}]
    assert dumped.of("value")[0]["value"] == {
        "term": 3,
        "voted_for": None,
        "peers": [1, {"base64": "/w=="}],
    }
    assert 'value {"term": 3' in dump_text(path)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("producer-snapshot", 5),
        ("producer-snapshot", [5, [[1, 2]]]),
        ("producer-snapshot", [5, [[1, 2, 3, [[1]]]]]),
        ("leader-epochs", [[1]]),
        ("leader-epochs", 4),
        ("partition", []),
        ("data-directory", [1, 2]),
        (Checkpoint.RECOVERY_POINT, [[1]]),
        (Checkpoint.RECOVERY_POINT, [["text", 1, 2]]),
    ],
)
def test_malformed_content_is_damage(tmp_path: Path, kind: str, value: object) -> None:
    path = tmp_path / "file"
    path.write_bytes(encode_checked(str(kind), json.loads(json.dumps(value))))
    dumped = dump(path)
    assert dumped.exit_code == 1
    assert f"this is not a {kind}" in dumped.of("damage")[0]["reason"]


@pytest.mark.parametrize("body", [b"\xc1", b"\x05", b"\x92\x05\x05"])
def test_content_that_is_not_a_checked_file_is_damage(tmp_path: Path, body: bytes) -> None:
    from minikafka.protocol.crc import crc32c

    path = tmp_path / "file"
    path.write_bytes(crc32c(body).to_bytes(4, "big") + body)
    assert "the content cannot be read" in dump(path).of("damage")[0]["reason"]


def test_json_values_keep_their_shape() -> None:
    assert json_value([1, 2.5, True, None, "a", {"b": [b"c"]}]) == [
        1, 2.5, True, None, "a", {"b": ["c"]},
    ]  # fmt: skip


# --- the metadata log ---------------------------------------------------------------------------


@pytest.fixture
def metadata_log(tmp_path: Path) -> Path:
    path = tmp_path / "metadata.log"
    log = RecordLog.open(RealDisk(), str(path))
    log.append([encode_record(TopicRecord("orders", TOPIC_ID))])
    partition = PartitionRecord(TOPIC_ID, 0, (1, 2), (1,), 1, 4, 9)
    log.append([encode_record(partition), b"\xc1"])
    log.append([encode_record(TopicRecord("payments", TOPIC_ID))])
    log.close()
    return path


def test_metadata_frames_and_records(metadata_log: Path) -> None:
    dumped = dump("--records", metadata_log)
    assert dumped.exit_code == 0
    frames = [(frame["first_index"], frame["record_count"]) for frame in dumped.of("frame")]
    assert frames == [(0, 1), (1, 2), (3, 1)]
    records = dumped.of("metadata_record")
    assert records[0] == {
        "type": "metadata_record",
        "index": 0,
        "kind": "TopicRecord",
        "fields": {"name": "orders", "topic_id": TOPIC_ID.hex()},
    }
    assert records[1]["fields"]["replicas"] == [1, 2]
    assert records[2]["kind"] == "unknown"
    assert not dump(metadata_log).of("metadata_record")
    text = dump_text("--records", metadata_log)
    assert "  0  TopicRecord  name orders" in text
    assert "kind unknown" in text


def test_what_passwords_can_be_guessed_by_is_not_shown(tmp_path: Path) -> None:
    log = RecordLog.open(RealDisk(), str(tmp_path / "metadata.log"))
    log.append([encode_record(ScramCredentialRecord("alice", 1, b"one", b"two", b"three", 4096))])
    log.close()
    (record,) = dump("--records", tmp_path / "metadata.log").of("metadata_record")
    assert record["fields"] == {
        "user": "alice",
        "mechanism": 1,
        "iterations": 4096,
        **dict.fromkeys(("salt", "stored_key", "server_key"), "[hidden]"),
    }


def test_a_damaged_frame_is_skipped(metadata_log: Path) -> None:
    frames = dump(metadata_log).of("frame")
    content = bytearray(metadata_log.read_bytes())
    content[frames[1]["position"] + 50] ^= 1
    metadata_log.write_bytes(content)
    dumped = dump("--records", metadata_log)
    assert dumped.exit_code == 1
    assert [frame["first_index"] for frame in dumped.of("frame")] == [0, 3]
    (damaged,) = dumped.of("damage")
    assert damaged["position"] == frames[1]["position"]
    assert damaged["size_bytes"] == frames[1]["size_bytes"]


def test_a_torn_frame_is_damage_to_the_end(metadata_log: Path) -> None:
    content = metadata_log.read_bytes()
    metadata_log.write_bytes(content[:-3])
    (damaged,) = dump(metadata_log).of("damage")
    assert damaged["position"] + damaged["size_bytes"] == len(content) - 3
    metadata_log.write_bytes(content + b"mkRL")
    (damaged,) = dump(metadata_log).of("damage")
    assert (damaged["position"], damaged["size_bytes"]) == (len(content), 4)


def test_a_missing_frame_is_damage(tmp_path: Path, metadata_log: Path) -> None:
    other = RecordLog.open(RealDisk(), str(tmp_path / "other"))
    other.append([b"x"] * 7)
    other.close()
    frames = dump(metadata_log).of("frame")
    content = metadata_log.read_bytes()
    metadata_log.write_bytes(content[: frames[1]["position"]] + content[frames[2]["position"] :])
    dumped = dump(metadata_log)
    assert [entry["type"] for entry in dumped.entries] == ["file", "frame", "damage"]


def test_an_empty_metadata_log_is_not_damaged(tmp_path: Path) -> None:
    path = tmp_path / "metadata.log"
    path.write_bytes(b"")
    assert dump(path).exit_code == 0


def test_an_unreadable_file_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "meta"
    path.write_bytes(b"1234")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("minikafka.cli.dump.entry.os.open", refuse)
    dumped = dump(path)
    assert dumped.exit_code == 1
    assert f"cannot read {path}: Permission denied" in dumped.stderr
