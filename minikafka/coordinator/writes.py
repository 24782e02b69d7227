"""What both coordinators share: pending writes, the clocks, and the phases of a shard.

The states of one write, as the shell reports them::

    add ──► appended ──► committed          the high watermark has passed it
     │          └──────► failed             outcome unknown; `committed` may still follow
     └──► failed                            nothing was written
     └────────────────── resigned           another broker leads; the outcome is up to it

A report about a write that is not pending is ignored: the shell may report twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from minikafka.protocol.errors import ErrorCode

Record = tuple[bytes, bytes | None]
"""Key and value of one record of the coordinator's topic; a value of None is a tombstone."""


class Now(NamedTuple):
    """The time on two clocks: sessions need one that never jumps, stored times the wall clock."""

    monotonic_s: float
    """Seconds on any monotonic clock: sessions, timeouts, `deadline` of a shard."""
    wall_ms: int
    """Milliseconds since 1970: commit timestamps and the retention of offsets."""


class Phase(Enum):
    """The phase of a shard; the value is the error for requests in this phase."""

    LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    ACTIVE = ErrorCode.NONE
    RESIGNED = ErrorCode.NOT_COORDINATOR


@dataclass(frozen=True, slots=True)
class Append:
    """Write these records to the shard's partition as one batch.

    The shell then calls the shard's `appended` (or `append_failed` when nothing was written), and
    `committed` once the high watermark has passed the batch.

    With a producer id it is a transactional batch of that producer, without sequence numbers; the
    shell first has the producer's coordinator verify the transaction (KIP-890).
    """

    records: tuple[Record, ...]
    write_id: int
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(slots=True)
class Write:
    """An `Append` that the high watermark has not passed."""

    write_id: int
    is_appended: bool
    """It is in the log, so a failure no longer means that it is lost."""


WriteT = TypeVar("WriteT", bound=Write)


class PendingWrites(Generic[WriteT]):
    """The writes of one shard that are not committed, in the order of their ids."""

    def __init__(self) -> None:
        self._writes: dict[int, WriteT] = {}
        self._unwritten: dict[int, None] = {}
        self._last_id = 0

    def __bool__(self) -> bool:
        return bool(self._writes)

    @property
    def last(self) -> WriteT | None:
        """The latest write that is not committed; None if there is none."""
        return next(reversed(self._writes.values()), None)

    @property
    def has_unwritten(self) -> bool:
        """Whether the shell has still to carry out an `Append`."""
        return bool(self._unwritten)

    def new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def add(self, write: WriteT) -> None:
        self._writes[write.write_id] = write
        self._unwritten[write.write_id] = None

    def appended(self, write_id: int) -> WriteT | None:
        """The write, if this is its first report: the caller applies its records to the state."""
        if write_id not in self._unwritten:
            return None
        del self._unwritten[write_id]
        write = self._writes[write_id]
        write.is_appended = True
        return write

    def committed(self, write_id: int) -> WriteT | None:
        """The write, which is no longer pending; call `appended` first."""
        return self._writes.pop(write_id, None)

    def failed(self, write_id: int) -> WriteT | None:
        """The write; once appended it stays pending, because it may still be committed."""
        write = self._writes.get(write_id)
        if write is not None and not write.is_appended:
            del self._writes[write_id], self._unwritten[write_id]
        return write

    def resigned(self) -> list[WriteT]:
        """All pending writes; afterwards none is pending."""
        writes = list(self._writes.values())
        self._writes.clear()
        self._unwritten.clear()
        return writes

    def check_all_are_written(self) -> None:
        """Check that the state is up to date before a decision is based on it.

        Raises:
            RuntimeError: the shell has not carried out an earlier `Append`.
        """
        if self._unwritten:
            raise RuntimeError(
                f"Append effects {list(self._unwritten)} were neither reported as appended nor "
                "as failed; carry out all effects of one call before the next"
            )
