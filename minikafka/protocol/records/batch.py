"""The 61-byte header of a record batch: read it, check its CRC, stamp a new one.

Producers send batches, brokers store them and consumers receive them, byte for byte. A broker reads
only this header and replaces it in front of the unchanged payload.

    offset size field                    covered by the CRC
         0    8 base_offset              no: the leader assigns it
         8    4 batch_length             no: bytes after this field
        12    4 partition_leader_epoch   no: the leader assigns it
        16    1 magic                    no: always 2
        17    4 crc                      CRC-32C of everything after it
        21    2 attributes               yes
        23    4 last_offset_delta        yes
        27    8 base_timestamp           yes
        35    8 max_timestamp            yes
        43    8 producer_id              yes
        51    2 producer_epoch           yes
        53    4 base_sequence            yes
        57    4 record_count             yes
        61      records                  yes

Attributes: bits 0-2 compression, 3 timestamp type (1 = log append time), 4 transactional,
5 control batch, 6 base_timestamp is the delete horizon (KIP-534). Message format: KIP-98.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple, cast

from minikafka.protocol.crc import crc32c, extend_crc32c
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.errors import CorruptBatchError, UnsupportedMagicError

Buffer = bytes | bytearray | memoryview

BATCH_HEADER_SIZE_BYTES: Final = 61
"""Size of a batch without records: Kafka calls it RECORD_BATCH_OVERHEAD."""

LOG_OVERHEAD_SIZE_BYTES: Final = 12
"""base_offset and batch_length, which batch_length does not count."""

BATCH_SIZE_BYTES_MAX: Final = 0x7FFFFFFF
"""batch_length is a signed 32-bit integer; so that readers can add 12 to it, the sum is one too."""

BATCH_LENGTH_MIN: Final = BATCH_HEADER_SIZE_BYTES - LOG_OVERHEAD_SIZE_BYTES

CURRENT_MAGIC: Final = 2

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1

SEQUENCE_MAX: Final = 0x7FFFFFFF
"""The sequence after this one is 0."""

_HEADER: Final = Struct(">qiibIhiqqqhii")
CHECKED_PART: Final = Struct(">hiqqqhii")  # the header from attributes on
UNCHECKED_PART: Final = Struct(">qiibI")  # the header up to attributes
CHECKED_OFFSET: Final = 21  # where the CRC starts

_COMPRESSIONS: Final = {int(codec): codec for codec in Compression}


class BatchHeader(NamedTuple):
    """The fields of a batch header, in wire order."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch, header included."""
        return LOG_OVERHEAD_SIZE_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        """Offset of the last record that the batch ever had; compaction may have removed it."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The smallest base offset of the batch that follows."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        """Codec of the records.

        Raises:
            CorruptBatchError: the attributes name an unknown codec.
        """
        codec = _COMPRESSIONS.get(self.attributes & COMPRESSION_MASK)
        if codec is None:
            raise CorruptBatchError(
                f"batch at offset {self.base_offset}: attributes {self.attributes:#06x} name "
                f"compression {self.attributes & COMPRESSION_MASK}; known are 0 to 4"
            )
        return codec

    @property
    def has_log_append_time(self) -> bool:
        """Whether max_timestamp, set by the broker, is the timestamp of every record."""
        return self.attributes & LOG_APPEND_TIME_FLAG != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        """Whether it holds a control record, such as a transaction marker, not user records."""
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether base_timestamp is the time from which tombstones may be removed (KIP-534)."""
        return self.attributes & DELETE_HORIZON_FLAG != 0

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, which wraps from 2**31 - 1 to 0; -1 without a sequence."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX

    def stamped(self, base_offset: int, partition_leader_epoch: int) -> "BatchHeader":
        """The header with what a leader assigns; the CRC does not cover it."""
        return _new(BatchHeader, (base_offset, self[1], partition_leader_epoch, *self[3:]))

    def unchecked_part(self) -> bytes:
        """The first `CHECKED_OFFSET` bytes, which the CRC does not cover."""
        return UNCHECKED_PART.pack(*self[:5])


# The stub of tuple leaves the type of its items open.
_new: Final = cast("Callable[[type[BatchHeader], tuple[int, ...]], BatchHeader]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
"""`BatchHeader._make` without a check of the length; every record batch passes here."""


def parse_batch_header(
    buffer: Buffer, position: int = 0, *, must_be_whole: bool = False
) -> BatchHeader:
    """Read the header of the batch that begins at `position`.

    The fields are as the sender wrote them: only size and magic are checked. `crc_is_valid` checks
    the CRC, and the log validates what clients append.

    Args:
        buffer: Bytes that hold at least the 61 bytes of the header.
        position: Where in `buffer` the batch begins.
        must_be_whole: Also require that the buffer holds the records.

    Raises:
        CorruptBatchError: too few bytes for a header, or an invalid batch_length.
        UnsupportedMagicError: a message format version other than 2.
    """
    bytes_left = len(buffer) - position
    if position < 0 or bytes_left < BATCH_HEADER_SIZE_BYTES:
        raise CorruptBatchError(
            f"batch at position {position}: a header is {BATCH_HEADER_SIZE_BYTES} bytes long, "
            f"{max(bytes_left, 0)} are there"
        )
    header = _new(BatchHeader, _HEADER.unpack_from(buffer, position))
    if header[3] != CURRENT_MAGIC:
        raise UnsupportedMagicError(
            f"batch at position {position}: message format version (magic) {header.magic}; "
            f"only {CURRENT_MAGIC} is supported, send with Kafka 0.11's format or newer"
        )
    batch_length = header[1]
    if batch_length < BATCH_LENGTH_MIN:
        raise CorruptBatchError(
            f"batch at position {position}: batch_length {header.batch_length} is smaller than "
            f"the {BATCH_LENGTH_MIN} bytes every batch has"
        )
    if must_be_whole and batch_length > bytes_left - LOG_OVERHEAD_SIZE_BYTES:
        raise CorruptBatchError(
            f"batch at position {position}: its size is {header.size_bytes} bytes, "
            f"{bytes_left} are there"
        )
    return header


def iter_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Walk over the batches in `buffer`; yields each one's position and header.

    Whole batches only: a partial batch at the end, which is what a fetch that hit its size limit
    and a log file that was torn both end with, ends the iteration without an error. A caller who
    minds compares the end of the last batch with the length of the buffer.

    Raises:
        CorruptBatchError: where a batch should begin, 61 bytes or more are no batch header.
    """
    position = 0
    header_position_max = len(buffer) - BATCH_HEADER_SIZE_BYTES
    while position <= header_position_max:
        header = parse_batch_header(buffer, position)
        next_position = position + LOG_OVERHEAD_SIZE_BYTES + header.batch_length
        if next_position > len(buffer):
            return
        yield position, header
        position = next_position


def compute_crc(buffer: Buffer, position: int, size_bytes: int) -> int:
    """CRC-32C of the batch at `position`: over everything from its attributes to its end.

    Args:
        buffer: Bytes that hold the whole batch.
        position: Where in `buffer` the batch begins.
        size_bytes: Size of the whole batch, header included.

    Raises:
        CorruptBatchError: the buffer ends inside the batch.
    """
    start = position + CHECKED_OFFSET
    end = position + size_bytes
    if position < 0 or size_bytes < BATCH_HEADER_SIZE_BYTES or end > len(buffer):
        raise CorruptBatchError(
            f"batch at position {position}: no {size_bytes} bytes to compute a CRC of in a "
            f"buffer of {len(buffer)} bytes"
        )
    return crc32c(buffer, start, end)


def crc_is_valid(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the CRC in the header of the batch at `position` is right.

    Raises:
        CorruptBatchError: the buffer ends inside the batch.
    """
    size_bytes = LOG_OVERHEAD_SIZE_BYTES + header.batch_length
    return compute_crc(buffer, position, size_bytes) == header.crc


def rewrite_header(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    *,
    base_offset: int,
    partition_leader_epoch: int,
    log_append_time_ms: int | None = None,
) -> bytes:
    """Make the header that the leader puts in front of the unchanged payload of a batch.

    Args:
        buffer: Bytes that hold the whole batch; read only when `log_append_time_ms` is given.
        position: Where in `buffer` the batch begins.
        header: The parsed header of the batch.
        base_offset: Offset of the first record.
        partition_leader_epoch: Epoch of the leader that appends the batch.
        log_append_time_ms: The time of the append with message.timestamp.type=LogAppendTime. It
            becomes the timestamp of all records, and the CRC changes.

    Returns:
        61 bytes.

    Raises:
        CorruptBatchError: the buffer ends inside the batch.
    """
    if log_append_time_ms is None:
        return _HEADER.pack(base_offset, header[1], partition_leader_epoch, *header[3:])
    checked_part = CHECKED_PART.pack(
        header.attributes | LOG_APPEND_TIME_FLAG,
        header.last_offset_delta,
        header.base_timestamp,
        log_append_time_ms,
        *header[9:],
    )
    end = position + header.size_bytes
    if end > len(buffer):
        raise CorruptBatchError(
            f"batch at position {position}: its size is {header.size_bytes} bytes, "
            f"{len(buffer) - position} are there"
        )
    crc = extend_crc32c(crc32c(checked_part), buffer, position + BATCH_HEADER_SIZE_BYTES, end)
    unchecked_part = UNCHECKED_PART.pack(
        base_offset, header.batch_length, partition_leader_epoch, CURRENT_MAGIC, crc
    )
    return unchecked_part + checked_part
