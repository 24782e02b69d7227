"""Files that earlier versions wrote: every later version must still read them.

Each `.hex` file here holds one or more files as a released broker left them on its disk. They are
only ever added to: when a format changes, add the new bytes beside the old ones and keep both
readable. Never regenerate a file to make a test pass.
"""

from pathlib import Path
from random import Random

import pytest

from minikafka.storage.aborted_index import encode_aborted
from minikafka.storage.checkpoints import Checkpoint, CheckpointWork, read_checkpoint
from minikafka.storage.directory_meta import check_meta, write_meta
from minikafka.storage.disk import FileCache
from minikafka.storage.index import IndexEntry, SparseIndex, TimestampEntry
from minikafka.storage.leader_epochs import LeaderEpochCache
from minikafka.storage.log_config import LogConfig
from minikafka.storage.log_directory import LogDirectory
from minikafka.storage.memory_disk import MemoryDisk
from minikafka.storage.partition_identity import LogIdentity, read_identity, write_identity
from minikafka.storage.producer_state import ActiveProducer, ProducerStateManager
from minikafka.storage.record_log import RecordLog
from minikafka.storage.repair import QuarantinedRange
from minikafka.storage.transactions import AbortedTransaction
from tests.storage.batches import NOW_MS, value_at, values_by_offset

TOPIC_ID = bytes(range(16))
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


def golden_files(name: str) -> dict[str, bytes]:
    """The files in `<name>.hex`: `= path`, then lines of hex; `#` begins a comment."""
    files: dict[str, bytes] = {}
    path = ""
    for line in (Path(__file__).parent / f"{name}.hex").read_text().splitlines():
        if line.startswith("= "):
            path = line[2:]
            files[path] = b""
        elif not line.startswith("#"):
            files[path] += bytes.fromhex(line)
    return files


def disk_with(files: dict[str, bytes]) -> MemoryDisk:
    """A disk with these files under `d`."""
    disk = MemoryDisk(Random(1))
    disk.now_ms = NOW_MS
    for path, content in files.items():
        disk.make_directory(f"d/{path}".rpartition("/")[0])
        disk.replace_file(f"d/{path}", content, sync=True)
    return disk


def test_meta() -> None:
    disk = disk_with(golden_files("meta"))
    for _ in range(2):
        assert check_meta(disk, "d", 7, None, "new") == CLUSTER_ID
        write_meta(disk, "d", 7, CLUSTER_ID)


def test_checkpoints() -> None:
    disk = disk_with(golden_files("checkpoints"))
    expected = {
        kind: {(TOPIC_ID, 0): 1000 * n + 5, (TOPIC_ID, 12): 2**40 + n}
        for n, kind in enumerate(Checkpoint)
    }
    for _ in range(2):
        assert {kind: read_checkpoint(disk, "d", kind) for kind in Checkpoint} == expected
        entries = {
            kind: [(*key, offset) for key, offset in offsets.items()]
            for kind, offsets in expected.items()
        }
        CheckpointWork(disk, "d", entries, sync=False).run()


def test_partition_metadata() -> None:
    disk = disk_with(golden_files("partition_metadata"))
    identity = LogIdentity("orders.eu-1", 3, TOPIC_ID)
    for _ in range(2):
        assert read_identity(disk, "d") == identity
        write_identity(disk, "d", identity)


def test_leader_epochs() -> None:
    (content,) = golden_files("leader_epochs").values()
    for _ in range(2):
        epochs = LeaderEpochCache.decode(content, path="golden")
        assert epochs.entries == [(0, 0), (3, 17), (4, 2**33)]
        content = epochs.encode()


def test_index_of_version_0_1() -> None:
    """It is recognised, so that it is replaced when the log is opened."""
    (name,) = files = golden_files("index")
    disk = disk_with(files)
    assert SparseIndex(FileCache(disk), f"d/{name.removesuffix('.index')}").is_of_earlier_version()


def test_indexes() -> None:
    files = golden_files("indexes")
    disk = disk_with(files)
    stem = f"d/{next(iter(files)).partition('.')[0]}"
    entries = [IndexEntry(10, 4096), IndexEntry(300, 8205), IndexEntry(2**31 - 1, 2**32 - 1)]
    times = [TimestampEntry(NOW_MS, 10), TimestampEntry(2**62, 2**31 - 1)]
    index = SparseIndex(FileCache(disk), stem)
    for _ in range(2):
        assert not index.is_of_earlier_version()
        assert index.flaw() == ""
        assert (list(index.entries()), list(index.timestamps())) == (entries, times)
        assert index.lookup_offset(299) == entries[0]
        assert index.lookup_position(8205) == entries[1]
        assert index.lookup_timestamp(2**62 - 1) == times[0]
        index.clear()
        for entry, largest in zip(entries, (times[0], *times), strict=True):
            index.add(entry, largest)
        index.write_tail()
        index = SparseIndex(FileCache(disk), stem)
    assert {path: disk.content(f"d/{path}") for path in files if "txn" not in path} == {
        path: content for path, content in files.items() if "txn" not in path
    }


def test_transaction_index() -> None:
    files = golden_files("indexes")
    content = files["00000000000000000000.txnindex"]
    aborted = [AbortedTransaction(7, 3, 9, 10), AbortedTransaction(2**62, 2**40, 2**40 + 1, 12)]
    assert encode_aborted(aborted) == content


@pytest.mark.parametrize("name", ["producer_snapshot", "producer_snapshot_1"])
def test_producer_snapshot(name: str) -> None:
    """Version 0.1 wrote the first, without Kafka's part."""
    (content,) = golden_files(name).values()
    for _ in range(2):
        producers = ProducerStateManager()
        producers.load(content, offset=11, path="golden", now_ms=NOW_MS)
        assert producers.active_producers() == [
            ActiveProducer(1, 3, 3, NOW_MS, -1, -1),
            ActiveProducer(2, 1, 1, NOW_MS, -1, 4),
            ActiveProducer(4, 0, 0, NOW_MS, 9, -1),
            ActiveProducer(3, 5, -1, -1, 2, -1),
            ActiveProducer(5, 2, 0, NOW_MS, 4, -1),
        ]
        assert producers.last_offsets() == {1: 3, 2: 5, 4: 6, 5: 9}
        content = producers.encode(11)
        transactions = producers.transactions
        assert transactions.aborted == [AbortedTransaction(4, 6, 7, 4)]
        assert transactions.last_stable_offset(11) == 4
        # The markers at 7 and 10 are not certain before the high watermark has passed them.
        producers.load(content, offset=11, path="golden", now_ms=NOW_MS)
        del producers.transactions._open[2]
        assert [transactions.last_stable_offset(bound) for bound in (7, 8, 10, 11)] == [6, 8, 9, 11]


def test_record_log() -> None:
    disk = disk_with(golden_files("record_log"))
    records = [b"first", b"", b"\x00\xff" * 20, b"last"]
    log = RecordLog.open(disk, "d/records.log")
    assert (log.first_index, log.next_index, log.may_have_lost) == (0, 4, False)
    assert list(log.records()) == records
    log.append([b"more"])
    assert list(RecordLog.open(disk, "d/records.log").records()) == [*records, b"more"]


def test_record_log_with_a_snapshot() -> None:
    disk = disk_with(golden_files("record_log_snapshot"))
    log = RecordLog.open(disk, "d/records.log")
    assert (log.first_index, log.next_index) == (2**33, 2**33 + 2)
    assert list(log.records()) == [b"base", b"next"]
    log.replace([b"newer base"], first_index=2**33 + 2)
    assert list(RecordLog.open(disk, "d/records.log").records()) == [b"newer base"]


def test_data_directory() -> None:
    """A killed broker's directory, with every kind of file name: see the comment in the file."""
    files = golden_files("data_directory")
    suffixes = {path.rpartition(".")[2] for path in files if "." in path}
    assert suffixes >= {"log", "index", "snapshot", "cut", "quarantine", "swap", "metadata"}
    disk = disk_with(files)
    directory = open_directory(disk)
    assert directory.cluster_id == "golden-cluster"
    assert directory.offline == {}
    assert directory.was_clean_shutdown is False
    assert directory.topic_ids == {
        ("plain", 0): TOPIC_ID,
        ("cut", 2): b"c" * 16,
        ("compacted", 0): b"k" * 16,
        ("damaged", 0): b"d" * 16,
    }
    assert directory.delete_pending() == 1
    check_logs(directory)
    assert directory.logs["cut", 2].recovery_point == 2  # the checkpoint says 4
    directory.close()
    directory = open_directory(disk)
    assert directory.was_clean_shutdown
    check_logs(directory)


def open_directory(disk: MemoryDisk) -> LogDirectory:
    directory = LogDirectory.open(disk, "d", node_id=1, new_cluster_id="another")
    directory.open_all(lambda _topic: LogConfig(segment_bytes=400), now_ms=NOW_MS)
    return directory


def check_logs(directory: LogDirectory) -> None:
    plain, cut = directory.logs["plain", 0], directory.logs["cut", 2]
    damaged, compacted = directory.logs["damaged", 0], directory.logs["compacted", 0]
    assert values_by_offset(plain) == {offset: value_at(offset) for offset in range(10)}
    assert plain.leader_epochs.entries == [(0, 0), (1, 6)]
    assert (plain.high_watermark, plain.recovery_point) == (9, 10)
    assert plain.producer_state.last_offsets() == {1: 9}
    assert values_by_offset(cut) == {0: value_at(0), 1: value_at(1), 2: "w000002"}
    assert (cut.high_watermark, cut.leader_epochs.entries) == (2, [(0, 0), (1, 2)])
    assert values_by_offset(damaged) == {0: value_at(0), 2: value_at(2)}
    assert damaged.quarantined == (QuarantinedRange(1, 2),)
    assert values_by_offset(compacted) == {offset: value_at(offset) for offset in range(3, 8)}
    assert compacted.high_watermark == 8
