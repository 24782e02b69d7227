"""One partition of a broker, as far as an idempotent producer can tell (KIP-98)."""

from __future__ import annotations

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import decode_records, parse_batch_header

REMEMBERED_BATCHES = 5


class PartitionLog:
    """Appends batches; remembers the last five of each producer epoch."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self._epochs: dict[int, int] = {}
        self._recent: dict[int, list[tuple[int, int, int]]] = {}  # first, last sequence, offset

    def append(self, batch: bytes | bytearray | memoryview) -> tuple[ErrorCode, int]:
        """Append a batch, or say why not; returns (error, base offset)."""
        header = parse_batch_header(batch, must_be_whole=True)
        records = decode_records(batch, check_crc=True)
        if header.producer_id >= 0:
            refused = self._check(header.producer_id, header.producer_epoch, header.base_sequence)
            if refused is not None:
                return refused
        base_offset = len(self.values)
        self.values += [record.value or b"" for record in records]
        if header.producer_id >= 0:
            recent = self._recent.setdefault(header.producer_id, [])
            recent.append((header.base_sequence, header.last_sequence, base_offset))
            del recent[:-REMEMBERED_BATCHES]
            self._epochs[header.producer_id] = header.producer_epoch
        return ErrorCode.NONE, base_offset

    def _check(self, producer_id: int, epoch: int, sequence: int) -> tuple[ErrorCode, int] | None:
        known = self._epochs.get(producer_id)
        if known is None:
            return None  # as in Kafka: it cannot tell a new producer from one it has forgotten
        if epoch > known:
            if sequence != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self._recent[producer_id] = []
            return None
        if epoch < known:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        recent = self._recent[producer_id]
        for first, _last, offset in recent:
            if first == sequence:
                return ErrorCode.NONE, offset  # a repetition: the answer of the first time
        if sequence != (recent[-1][1] + 1) & 0x7FFFFFFF:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        return None
