"""A data directory for the storage tests."""

from random import Random

from minikafka.storage.log import Log
from minikafka.storage.log_config import LogConfig
from minikafka.storage.log_directory import LogDirectory
from minikafka.storage.memory_disk import MemoryDisk
from tests.storage.batches import NOW_MS, batch_of, value_at

CONFIG = LogConfig(segment_bytes=300)
ID = b"i" * 16
OTHER_ID = b"o" * 16


class DirectoryUnderTest:
    """A data directory on a memory disk that can be opened again."""

    def __init__(self) -> None:
        self.disk = MemoryDisk(Random(1))
        self.disk.now_ms = NOW_MS
        self.directory = self.open()

    def open(
        self,
        *,
        node_id: int = 1,
        cluster_id: str | None = None,
        topic_id: bytes | None = None,
    ) -> LogDirectory:
        self.directory = LogDirectory.open(
            self.disk, "root", node_id=node_id, new_cluster_id="new", cluster_id=cluster_id
        )
        self.directory.open_all(
            lambda topic: CONFIG, now_ms=NOW_MS, topic_id_for=lambda topic, partition: topic_id
        )
        return self.directory

    def kill(self) -> LogDirectory:
        self.disk.crash()
        return self.open()

    def restart(self) -> LogDirectory:
        self.directory.close()
        return self.open()

    def create(self, topic: str = "t", partition: int = 0, topic_id: bytes = ID) -> Log:
        return self.directory.create_log(topic, topic_id, partition, CONFIG, now_ms=NOW_MS)


def append(log: Log, count: int) -> None:
    for _ in range(count):
        batch = batch_of(value_at(log.log_end_offset))
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    log.high_watermark = log.log_end_offset


def all_of(count: int) -> dict[int, str]:
    return {offset: value_at(offset) for offset in range(count)}
