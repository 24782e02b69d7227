"""The format of a producer snapshot: Kafka's, and after it what Kafka does not keep.

    offset size
         0    2 version, 1
         2    4 CRC-32C of everything after it
         6    4 number of producers
        10   46 each producer: its id, epoch, the last sequence, last offset and largest timestamp
                of its last batch, the coordinator epoch of its last marker, and where its open
                transaction begins
                a checked file (`checked_file`) with the whole state, which is what is read

Kafka's readers, such as kafka-dump-log, stop after the producers and check the CRC of all that
follows it, so both parts are in one file. Minikafka 0.1 wrote the checked file alone.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from minikafka.protocol.crc import crc32c

_HEADER: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_PRODUCER: Final = Struct(">qhiqiqiq")
_VERSION: Final = 1


class SnapshotProducer(NamedTuple):
    """A producer as Kafka stores it; -1 for what it has not got."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    transaction_start: int


def encode_snapshot(producers: Iterable[SnapshotProducer], whole_state: bytes) -> bytes:
    """Content of a snapshot file."""
    packed = [_PRODUCER.pack(*producer) for producer in producers]
    body = b"".join((_COUNT.pack(len(packed)), *packed, whole_state))
    return _HEADER.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(content: bytes) -> tuple[list[SnapshotProducer] | None, bytes]:
    """Kafka's part of a snapshot and the checked file in it.

    Returns:
        (None, `content`) when it is not a snapshot in Kafka's format: then it is a checked file
        alone, as earlier versions wrote it, or damaged.
    """
    start = _HEADER.size + _COUNT.size
    if len(content) < start:
        return None, content
    version, crc = _HEADER.unpack_from(content)
    if version != _VERSION or crc32c(content, _HEADER.size, len(content)) != crc:
        return None, content
    (count,) = _COUNT.unpack_from(content, _HEADER.size)
    end = start + count * _PRODUCER.size
    if not start <= end <= len(content):
        return None, content
    producers = [SnapshotProducer._make(one) for one in _PRODUCER.iter_unpack(content[start:end])]
    return producers, content[end:]
