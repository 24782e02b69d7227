"""Record batches for the storage tests."""

from random import Random
from typing import Any

from minikafka.protocol.records.batch import iter_batches
from minikafka.protocol.records.builder import encode_batch
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.record import Record, decode_records
from minikafka.storage.disk import FileCache
from minikafka.storage.log import Log
from minikafka.storage.log_config import LogConfig
from minikafka.storage.memory_disk import MemoryDisk

NOW_MS = 1_700_000_000_000


def batch_of(
    *values: str | None,
    key: str | None = "key",
    timestamp: int = NOW_MS,
    producer: tuple[int, int, int] | None = None,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: Compression = Compression.NONE,
) -> bytes:
    """A batch with one record per value; `producer` is (id, epoch, base sequence)."""
    producer_id, producer_epoch, base_sequence = producer or (-1, -1, -1)
    return bytes(
        encode_batch(
            [
                (
                    None if key is None else key.encode(),
                    None if value is None else value.encode(),
                    (),
                    timestamp,
                )
                for value in values
            ],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            base_offset=base_offset,
            partition_leader_epoch=leader_epoch,
            compression=compression,
        )
    )


def read_records(
    log: Log, offset: int | None = None, *, size_bytes_max: int = 4096
) -> list[Record]:
    """Every record from `offset` (the log start) to the log end, as a consumer reads them."""
    offset = log.log_start_offset if offset is None else offset
    records: list[Record] = []
    while offset < log.log_end_offset:
        read = log.read(
            offset, size_bytes_max=size_bytes_max, upper_bound_offset=log.log_end_offset
        )
        if read.records is None:
            break
        content = read.records.read()
        for position, _ in iter_batches(content):
            records += [
                record
                for record in decode_records(content, position, check_crc=True)
                if record.offset >= offset
            ]
        assert read.next_offset > offset
        offset = read.next_offset
    return records


def values_by_offset(log: Log) -> dict[int, str | None]:
    """What a consumer reads."""
    return {
        record.offset: None if record.value is None else record.value.decode()
        for record in read_records(log)
    }


def value_at(offset: int) -> str:
    """What `LogUnderTest.append_many` writes there."""
    return f"v{offset:06d}"


class LogUnderTest:
    """A log on a memory disk that can be crashed and opened again.

    Attributes:
        disk: The disk.
        log: The log as it is open now.
        config: What it is opened with.
    """

    directory = "d/t-0"

    def __init__(self, *, seed: int = 1, **settings: Any) -> None:
        self.disk = MemoryDisk(Random(seed))
        self.disk.now_ms = NOW_MS
        self.disk.make_directory(self.directory)
        self.disk.sync_directory(self.directory)
        self.config = LogConfig(**settings)
        self.log = self.open()

    def open(self, **checkpoints: Any) -> Log:
        """Open the log, as after a restart."""
        self.log = Log.open(
            FileCache(self.disk, 10), self.directory, self.config, now_ms=NOW_MS, **checkpoints
        )
        return self.log

    def kill(self, **checkpoints: Any) -> Log:
        """End the process and open the log again."""
        self.disk.crash()
        return self.open(**checkpoints)

    def checkpoint(self) -> None:
        """A checkpoint of now becomes durable; `kill` and `open` say what is in it."""
        cut = self.log.cut_to_supersede()
        if cut is not None:
            cut.marker.remove(cut)

    def restart(self) -> Log:
        """Close the log cleanly and open it again."""
        self.log.close()
        self.checkpoint()
        return self.kill(
            recovery_point=self.log.recovery_point,
            log_start_offset=self.log.log_start_offset,
            high_watermark=self.log.high_watermark,
            first_dirty_offset=self.log.first_dirty_offset,
            segment_sizes=self.log.segment_sizes(),
        )

    def append(self, *values: str | None, now_ms: int = NOW_MS, **fields: Any) -> int:
        """Append one batch as leader of epoch 0; returns its base offset."""
        leader_epoch = fields.pop("leader_epoch", 0)
        batch = batch_of(*values, **fields)
        return self.log.append_as_leader(
            batch, leader_epoch=leader_epoch, now_ms=now_ms
        ).base_offset

    def append_many(self, count: int) -> None:
        """Append batches of one record, `value_at` its offset, all of the same size."""
        for _ in range(count):
            self.append(value_at(self.log.log_end_offset))

    def names(self, suffix: str = "") -> list[str]:
        """Names of the partition's files."""
        return [path.rpartition("/")[2] for path in self.disk.paths(suffix)]

    def path(self, name: str) -> str:
        """Path of one of the partition's files."""
        return f"{self.directory}/{name}"
