"""Transactional logs for the storage tests."""

from typing import Any

from minikafka.protocol.records.batch import iter_batches
from minikafka.protocol.records.builder import encode_batch
from minikafka.protocol.records.control import ControlType, decode_control_type
from minikafka.protocol.records.record import decode_records
from minikafka.storage.log import AppendResult, Log
from tests.storage.batches import NOW_MS, LogUnderTest

COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT


def transactional_batch(
    *values: str, producer_id: int, epoch: int, sequence: int, key: str | None = "key"
) -> bytes:
    """A batch of a transaction."""
    return bytes(
        encode_batch(
            [
                (None if key is None else key.encode(), value.encode(), (), NOW_MS)
                for value in values
            ],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
    )


class TransactionalLog(LogUnderTest):
    """A log and producers that count their sequences."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.sequences: dict[tuple[int, int], int] = {}

    def write(self, producer_id: int, *values: str, epoch: int = 0, key: str | None = "k") -> int:
        """Append a batch of a transaction that the coordinator knows; returns its offset."""
        sequence = self.sequences.get((producer_id, epoch), 0)
        batch = transactional_batch(
            *values, producer_id=producer_id, epoch=epoch, sequence=sequence, key=key
        )
        self.confirm(producer_id, epoch)
        result = self.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
        self.sequences[producer_id, epoch] = sequence + len(values)
        return result.base_offset

    def confirm(self, producer_id: int, epoch: int) -> None:
        """The coordinator says that this partition is in the transaction."""
        verification = self.log.verify_transaction(producer_id, epoch)
        if verification is not None:
            verification.is_confirmed = True

    def end(
        self, producer_id: int, control_type: ControlType, epoch: int = 0, **fields: int
    ) -> AppendResult | None:
        """Append a marker."""
        return self.log.append_marker(
            control_type,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=fields.get("coordinator_epoch", 0),
            transaction_version=fields.get("transaction_version", 0),
            leader_epoch=0,
            now_ms=NOW_MS,
        )

    def replicate(self) -> None:
        """Everything is below the high watermark."""
        self.log.high_watermark = self.log.log_end_offset


def read_committed(log: Log, offset: int | None = None, size_bytes_max: int = 300) -> list[str]:
    """Values up to the last stable offset, as a read_committed consumer sees them."""
    offset = log.log_start_offset if offset is None else offset
    return [value for _, value in committed_records(log, offset, size_bytes_max)]


def committed_records(log: Log, offset: int, size_bytes_max: int = 300) -> list[tuple[int, str]]:
    """Their offsets, too."""
    found: list[tuple[int, str]] = []
    while offset < log.last_stable_offset:
        read = log.read(
            offset, size_bytes_max=size_bytes_max, upper_bound_offset=log.last_stable_offset
        )
        if read.records is None:
            break
        content = read.records.read()
        # Each fetch starts with the transactions that overlap it.
        pending = sorted(
            log.aborted_transactions(offset, read.next_offset), key=lambda one: -one.first_offset
        )
        aborted: set[int] = set()
        for position, header in iter_batches(content):
            while pending and pending[-1].first_offset <= header.last_offset:
                aborted.add(pending.pop().producer_id)
            records = decode_records(content, position)
            if header.is_control:
                if decode_control_type(records[0].key)[1] == ABORT:
                    aborted.discard(header.producer_id)
                continue
            if header.is_transactional and header.producer_id in aborted:
                continue
            found += [
                (record.offset, (record.value or b"").decode())
                for record in records
                if record.offset >= offset
            ]
        offset = read.next_offset
    return found
