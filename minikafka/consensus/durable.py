"""What a node of the quorum stores on disk: its log, and its epoch and vote.

``quorum.log``
    A `RecordLog`. Its first record is the base: the snapshot of everything up to the record's
    index (empty at index 0); then one record, in a frame of its own, for each entry. A record is
    the entry's epoch (8 bytes) and its payload. So snapshot and entries are replaced together
    and atomically, and nothing has to be matched after a crash.
``quorum-state``
    Epoch, vote, the voters, and the identity of the directory (`StoredState`): a checked file,
    replaced and synced before any message that depends on it is sent.
``quorum-synced``
    The CRC-32C of what follows; the end of the log when it was last synced, and its commit index (8
    bytes each). It is written after each sync and not synced itself, so it may lag behind, but
    never runs ahead; before the log is shortened on purpose it is lowered and synced.

How these files evolve: `StoredState` gets new fields at its end, with defaults, and a reader
ignores those that it does not know. A record of the log has none: what a later version has to say
about an entry goes into its payload. ``quorum-synced`` may get longer, with a CRC of its own behind
what this version reads. ``tests/golden/consensus`` keeps the files of every version.

What damage means:

- A damaged state file: the node does not start, because it does not know how it voted.
- A damaged frame in the log is cut off if it may be a torn write (`RecordLog`): it had not been
  acknowledged. If it had been synced, as an intact frame behind it or ``quorum-synced`` proves, a
  voter does not start: entries may be committed because of its acknowledgement, and electing a
  leader without them would undo a decision. An observer is in no majority and fetches what it
  lacks from the leader again.
- A quorum of one has no other copy, and no node that could contradict it: the node goes on with
  what is left, sets `may_have_lost`, and the broker compares that with its log directories.
- A voter whose directory is empty has lost its promises, or is new. Its directory gets an id, and
  is not *admitted*: it neither votes nor counts until a leader says so, or all voters found a new
  cluster together (`minikafka.consensus.election`, `minikafka.consensus.leader`).
- Voters other than those in the state file are refused: two majorities that do not share a voter
  could decide differently. Once the log records the voters (`minikafka.consensus.voters`), their
  configuration counts no longer, and may be another one. The state file says so, too: a log that
  has lost that record would bring the configured ones back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from struct import Struct
from typing import Any, Final, NamedTuple, assert_never, cast

from minikafka.protocol.crc import crc32c
from minikafka.storage.checked_file import decode_checked, encode_checked
from minikafka.storage.disk import Disk, DiskFile
from minikafka.storage.errors import StorageError, WrongDataDirectory
from minikafka.storage.record_log import RecordLog

from .config import QuorumConfig
from .effects import Persist, PersistEntries, PersistSnapshot, PersistState
from .log import ENTRY_OVERHEAD_BYTES, RaftLog
from .messages import EPOCH_MAX, Entry
from .snapshot import EMPTY_SNAPSHOT, decode_snapshot, encode_snapshot
from .voters import decisions, encode_voters, is_decision, voters_in

__all__ = [
    "LOG_FILE",
    "STATE_FILE",
    "SYNCED_FILE",
    "DurableLog",
    "LostEntries",
    "admit_directory",
]

logger = logging.getLogger(__name__)

LOG_FILE: Final = "quorum.log"
STATE_FILE: Final = "quorum-state"
SYNCED_FILE: Final = "quorum-synced"

_STATE_KIND: Final = "quorum-state"
_STATE_SIZE_BYTES_MAX: Final = 64 * 1024
_START_EMPTY: Final = (
    "move the data directory away and start this node with an empty one, which the other voters "
    "fill and admit"
)
_EPOCH: Final = Struct(">Q")
_SYNCED: Final = Struct(">QQ")
_SYNCED_CRC: Final = Struct(">I")


class LostEntries(StorageError):
    """A voter's log lacks entries that it had acknowledged; it must not vote."""


class StoredState(NamedTuple):
    """The content of ``quorum-state``, as a list of its fields.

    A later version adds fields at the end, with defaults.

    Attributes:
        epoch: the highest seen.
        vote: the node voted for in it.
        voters: the quorum that the directory belongs to.
        directory_id: 16 random bytes, drawn when the file is first written (KIP-853).
        is_admitted: this directory may vote. Those of versions without ids all may.
        recorded_voters: node ids of the last voter set in the log, when this was written; empty if
            it has none.
    """

    epoch: int
    vote: int | None
    voters: list[int]
    directory_id: bytes = b""
    is_admitted: bool = True
    recorded_voters: Sequence[int] = ()


class DurableLog:
    """The files of one node. One call at a time, from any thread.

    Attributes:
        log: The state machine's log; its content is on disk once `write` has returned.
        commit_index: Everything up to here was known to be committed when the log was opened.
        directory_id: Of the directory.
        is_admitted: Whether a node with this directory may vote; one with which it was added to
            the voters may, too.
        may_have_lost: The log was new, or its end was cut: it may have held more before.
        snapshot_size_bytes: Of the snapshot at the base.
    """

    def __init__(self, disk: Disk, directory: str, config: QuorumConfig, *, sync: bool) -> None:
        """Use `open`."""
        self._disk: Final = disk
        self._directory: Final = directory
        self._config: Final = config
        self._sync: Final = sync
        self._records: RecordLog
        self._synced_file: DiskFile
        self.log: RaftLog
        self.epoch = 0
        self.vote: int | None = None
        self.commit_index = 0
        self.directory_id = b""
        self.is_admitted = config.voters == frozenset({config.node_id})
        self._recorded_voters: frozenset[int] = frozenset()
        self.may_have_lost = False
        self._is_certain = True
        self.snapshot_size_bytes = 0

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        config: QuorumConfig,
        *,
        new_directory_id: Callable[[], bytes],
        sync: bool = True,
    ) -> DurableLog:
        """Open or create the files of a node.

        Args:
            disk: The disk.
            directory: Where the files are; it exists.
            config: The node and its quorum.
            new_directory_id: Draws an id of 16 bytes for a directory that has none.
            sync: False if nothing has to survive a power failure.

        Raises:
            DamagedFile, DamagedRecordLog: damage that is not a torn write.
            LostEntries: the log lacks entries that had been synced.
            WrongDataDirectory: it belongs to a quorum of other voters.
            OSError: the disk failed.
        """
        durable = cls(disk, directory, config, sync=sync)
        if sync and disk.exists(durable._path(LOG_FILE)):
            disk.sync_directory(directory)  # the name may be in memory only, and is relied on now
        durable._open_log(durable._read_state())
        if not durable.directory_id:
            durable.directory_id = new_directory_id()
            durable._write_state()
        return durable

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    # --- who votes ---------------------------------------------------------------------------

    @property
    def voters(self) -> frozenset[int]:
        """Those that the log records, or the configured ones."""
        recorded = self.log.voters
        return self._config.voters if recorded is None else recorded.ids

    @property
    def is_alone(self) -> bool:
        """Whether this node is the whole quorum."""
        return self.voters == frozenset({self._config.node_id})

    def _check_voters(self, stored: StoredState | None) -> None:
        """Compare the voters with those of the state file.

        Raises:
            LostEntries: the log recorded its voters, and does so no longer.
            WrongDataDirectory: the node was configured with others.
        """
        if stored is None or self.log.voters is not None:
            return
        if stored.recorded_voters:
            raise LostEntries(
                f"{self._path(LOG_FILE)} has lost the record of the voters "
                f"{stored.recorded_voters}, with which this node was started last: restore the "
                f"file from a copy, or {_START_EMPTY}"
            )
        if frozenset(stored.voters) != self._config.voters:
            raise WrongDataDirectory(
                f"{self._directory} belongs to a quorum of the voters {stored.voters}, and this "
                f"node was started with {sorted(self._config.voters)}; start it with the same "
                "--quorum as before, or use another --data-dir"
            )

    # --- epoch and vote ----------------------------------------------------------------------

    def _read_state(self) -> StoredState | None:
        path = self._path(STATE_FILE)
        if not self._disk.exists(path):
            return None
        try:
            stored = _read_stored_state(self._disk, path)
        except StorageError as error:
            raise type(error)(
                f"{error}; it holds this node's vote, without which it could vote twice: restore "
                f"it from a copy, or {_START_EMPTY} (a node that is the only voter may start "
                "without the file)"
            ) from None
        self.epoch, self.vote = stored.epoch, stored.vote
        self.directory_id, self.is_admitted = stored.directory_id, stored.is_admitted
        self._recorded_voters = frozenset(stored.recorded_voters)
        return stored

    def _write_state(self) -> None:
        state = StoredState(
            self.epoch,
            self.vote,
            sorted(self._config.voters),
            self.directory_id,
            self.is_admitted,
            sorted(self._recorded_voters),
        )
        _write_stored_state(self._disk, self._path(STATE_FILE), state, sync=self._sync)

    # --- opening the log ---------------------------------------------------------------------

    def _open_log(self, stored: StoredState | None) -> None:
        records = self._records = RecordLog.open(self._disk, self._path(LOG_FILE))
        self.may_have_lost = records.may_have_lost
        synced_end, commit_index = self._read_synced()
        if stored is not None:
            synced_end = max(synced_end, 1)
        self._read_log()
        is_lost = records.next_index < synced_end
        if stored is None and records.next_index > 1 and not self.is_alone:
            raise LostEntries(
                f"{self._path(STATE_FILE)} is missing, and with it this node's vote: restore it "
                f"from a copy, or {_START_EMPTY}"
            )
        if is_lost:
            self._complain(synced_end)
        self._check_voters(stored)
        if not records.next_index:
            records.append([_EPOCH.pack(0) + EMPTY_SNAPSHOT], sync=self._sync)
        last_index = self.log.last_index
        self.epoch = max(self.epoch, self.log.last_epoch)
        if self.epoch > EPOCH_MAX:
            raise StorageError(
                f"the files in {self._directory} have epoch {self.epoch}, which no elections can "
                f"explain; restore them from a copy, or {_START_EMPTY}"
            )
        self.commit_index = max(self.log.base_index, min(commit_index, last_index))
        if self.is_alone:
            self.commit_index = last_index
        self._write_synced(sync=is_lost)

    def _read_log(self) -> None:
        """Make the log of the state machine; a file without records is an empty one."""
        payloads = self._records.records()
        base_epoch, snapshot = _decode(next(payloads, _EPOCH.pack(0) + EMPTY_SNAPSHOT))
        self.snapshot_size_bytes = len(snapshot)
        self.log = RaftLog(
            self._records.first_index,
            base_epoch,
            (Entry(*_decode(payload)) for payload in payloads),
            self._read_entries,
            self._config.log_memory_size_bytes_max,
            base_voters=voters_in(decode_snapshot(snapshot)),
        )

    def _complain(self, synced_end: int) -> None:
        text = (
            f"{self._path(LOG_FILE)} ends at index {self._records.next_index}, and it had been "
            f"synced up to {synced_end}: the disk lost what it had acknowledged"
        )
        self.may_have_lost = True
        if self._config.node_id in self.voters and not self.is_alone:
            raise LostEntries(
                f"{text}; this voter must not vote without it: restore the file from a copy, or "
                f"{_START_EMPTY}"
            )
        logger.error("%s", text)

    def _read_synced(self) -> tuple[int, int]:
        """(end, commit index) of the log as last written, or (0, 0)."""
        self._synced_file = self._disk.open(self._path(SYNCED_FILE), create=True)
        content = self._synced_file.pread(0, _SYNCED_CRC.size + _SYNCED.size)
        body = content[_SYNCED_CRC.size :]
        if len(body) < _SYNCED.size or content[: _SYNCED_CRC.size] != _SYNCED_CRC.pack(
            crc32c(body)
        ):
            return 0, 0
        end, commit_index = _SYNCED.unpack(body)
        return end, commit_index

    def _write_synced(self, *, end: int | None = None, sync: bool = False) -> None:
        end = self._records.next_index if end is None else end
        body = _SYNCED.pack(end, min(self.commit_index, end - 1))
        self._synced_file.pwritev([_SYNCED_CRC.pack(crc32c(body)) + body], 0)
        if sync and self._sync:
            self._synced_file.fsync()

    # --- reading -----------------------------------------------------------------------------

    def _read_entries(self, first: int, end: int, size_bytes_max: int) -> Sequence[Entry]:
        chosen: list[Entry] = []
        for payload in islice(self._records.records(first), end - first):
            size_bytes_max -= len(payload) - _EPOCH.size + ENTRY_OVERHEAD_BYTES
            if chosen and size_bytes_max < 0:
                break
            chosen.append(Entry(*_decode(payload)))
        return chosen

    def read_snapshot(self) -> bytes:
        """The snapshot at the log's base. Raises OSError, DamagedRecordLog."""
        return _decode(next(self._records.records()))[1]

    def stored_snapshot(self) -> tuple[int, list[bytes]]:
        """The last index in the snapshot, and the decisions in it.

        Raises:
            OSError, DamagedRecordLog: the disk failed.
        """
        return self._records.first_index, decisions(decode_snapshot(self.read_snapshot()))

    def committed(self) -> Iterator[tuple[int, bytes]]:
        """(index, decision) of each entry after the snapshot, up to `commit_index`.

        Entries that decide nothing are left out.

        Raises:
            OSError, DamagedRecordLog: the disk failed.
        """
        first = self.log.base_index + 1
        payloads = islice(self._records.records(first), self.commit_index + 1 - first)
        for index, record in enumerate(payloads, first):
            payload = _decode(record)[1]
            if is_decision(payload):
                yield index, payload

    # --- writing -----------------------------------------------------------------------------

    @property
    def is_usable(self) -> bool:
        """False after a failure that leaves the content of the disk unknown.

        Then only a new process may read it; after other failures the files may be opened again.
        """
        return self._is_certain and self._records.is_usable

    def write(self, effects: Sequence[Persist], commit_index: int) -> None:
        """Make everything durable, in order, before returning.

        Args:
            effects: What the state machine wants to be stored.
            commit_index: The state machine's, stored with it.

        Raises:
            OSError: the disk failed; some of it may have been stored. Discard the state machine
                and this object.
        """
        needs_sync = False
        for effect in effects:
            match effect:
                case PersistState(epoch=epoch, vote=vote, is_admitted=is_admitted):
                    self.epoch, self.vote, self.is_admitted = epoch, vote, is_admitted
                    self._write_state()
                case PersistEntries(first_index=first_index, entries=entries):
                    self._shorten(first_index)
                    for entry in entries:
                        self._records.append([_EPOCH.pack(entry.epoch) + entry.payload], sync=False)
                    needs_sync = True
                case PersistSnapshot(index=index, epoch=epoch, snapshot=snapshot):
                    self._write_synced(end=min(index + 1, self._records.next_index), sync=True)
                    self._records.replace([_EPOCH.pack(epoch) + snapshot], first_index=index)
                    self.snapshot_size_bytes = len(snapshot)
                case _:
                    assert_never(effect)
        self.commit_index = max(self.commit_index, commit_index)
        if needs_sync:
            if self._sync:
                self._is_certain = False  # a failed fsync leaves the disk's content unknown
                self._records.sync()
                self._is_certain = True
            self._write_synced()
        self._note_voters()

    def _note_voters(self) -> None:
        """Write down that the log records its voters, once it does so durably."""
        recorded = self.log.voters
        voters = frozenset[int]() if recorded is None else recorded.ids
        if voters != self._recorded_voters:
            self._recorded_voters = voters
            self._write_state()

    def _shorten(self, index: int) -> None:
        if index < self._records.next_index:
            self._write_synced(end=index, sync=True)
            self._is_certain = False
            self._records.truncate_to(index)
            self._is_certain = True

    def append_alone(self, payload: bytes) -> None:
        """Append an entry in a quorum of one, before its state machine exists; durable on return.

        Raises:
            OSError: the disk failed.
        """
        entry = Entry(self.epoch, payload)
        index = self.log.last_index + 1
        self.write([PersistEntries(index, (entry,))], index)
        self.log.append((entry,))

    def compact(self, index: int, payloads: Sequence[bytes]) -> None:
        """Replace all entries up to an index by a snapshot; `log` is compacted too.

        Args:
            index: Committed and applied, above the base.
            payloads: Rebuild, from nothing, the state that all entries up to there led to.

        Raises:
            ValueError: the snapshot and what follows it are too large; nothing changed.
            OSError, DamagedRecordLog: the disk failed; while `is_usable`, nothing changed.
        """
        voters = self.log.voters_at(index)
        own = [] if voters is None else [encode_voters(voters)]
        base = _EPOCH.pack(self.log.epoch_at(index)) + encode_snapshot([*own, *payloads])
        try:
            self._records.replace([base, *self._records.records(index + 1)], first_index=index)
        except OSError:
            if not self.is_usable or self._records.first_index != index:
                raise
            # It failed after the new file got its name, which is durable by now.
        self.log.compact(index)
        self.snapshot_size_bytes = len(base)

    @property
    def size_bytes(self) -> int:
        """Size of the log with its snapshot."""
        return self._records.size_bytes

    def close(self, commit_index: int = 0) -> None:
        """Store the commit index and close the files."""
        self.commit_index = max(self.commit_index, commit_index)
        try:
            self._write_synced(sync=True)
        except OSError as error:
            logger.error("%s: %s", self._path(SYNCED_FILE), error)
        self._synced_file.close()
        self._records.close()


def admit_directory(disk: Disk, directory: str) -> bool:
    """Let a voter vote with a new directory, although no leader has admitted it.

    Only for the case that a majority of the directories is lost: what was committed on those only
    is undone. The caller holds the lock of the directory, and its node is not running.

    Returns:
        Whether it was not admitted before.

    Raises:
        StorageError: there is no state file, or it is damaged.
        OSError: the disk failed.
    """
    path = f"{directory}/{STATE_FILE}"
    if not disk.exists(path):
        raise StorageError(
            f"{path} is missing: start the node once with this directory and its --quorum, stop it "
            "again, and repeat this command"
        )
    stored = _read_stored_state(disk, path)
    if not stored.is_admitted:
        _write_stored_state(disk, path, stored._replace(is_admitted=True), sync=True)
    return not stored.is_admitted


def _read_stored_state(disk: Disk, path: str) -> StoredState:
    content = disk.read_file(path, size_bytes_max=_STATE_SIZE_BYTES_MAX)
    state = decode_checked(_STATE_KIND, content, path=path)
    return StoredState(*cast("list[Any]", state)[: len(StoredState._fields)])


def _write_stored_state(disk: Disk, path: str, state: StoredState, *, sync: bool) -> None:
    disk.replace_file(path, encode_checked(_STATE_KIND, [*state]), sync=sync)


def _decode(record: bytes) -> tuple[int, bytes]:
    """(epoch, payload) of a record."""
    (epoch,) = _EPOCH.unpack_from(record)
    return epoch, record[_EPOCH.size :]
