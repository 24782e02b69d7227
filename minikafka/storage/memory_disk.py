"""A disk in memory that can misbehave like a real one.

It keeps two versions of everything: what the running process sees (the page cache) and what has
been made durable. `crash(power_loss=True)` throws away what was not: of each file's unsynced
writes any subset survives, and any sector of one; of the unsynced names a prefix (file systems
journal them in order). `crash()` alone is a killed process: everything is still there.

Faults: `capacity_bytes` makes it full (ENOSPC, after a part was written), `fail` makes chosen
operations raise, `flip_bit` damages what is there. All choices come from the `random.Random` it
was given, so a seed repeats a run. Satisfies `Disk`; also for simulations
of whole clusters.
"""

import errno
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from .disk import Buffer
from .errors import DirectoryLocked

_T = TypeVar("_T")

SECTOR_SIZE_BYTES: Final = 512
"""What a disk writes as a whole."""

Fault = Callable[[str, str], int | None]
"""(operation, path) -> errno to fail with, or None. Operations: open, create, pread, pwritev,
fsync, truncate, rename, remove, sync_directory, list_directory."""


class Dice(Protocol):
    """What makes its choices, such as a `random.Random`."""

    def random(self) -> float: ...

    def randrange(self, stop: int, /) -> int: ...

    def choice(self, seq: Sequence[_T], /) -> _T: ...


class Inode:
    """A file: its bytes now, its durable bytes, and the changes in between, in order."""

    __slots__ = ("changes", "content", "durable", "modified_ms")

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = b""
        self.changes: list[tuple[int, bytes] | int] = []  # a write, or the size of a truncation
        self.modified_ms = 0

    def write(self, position: int, written: bytes) -> None:
        """Change the page cache."""
        if position > len(self.content):
            self.content += bytes(position - len(self.content))
        self.content[position : position + len(written)] = written
        self.changes.append((position, written))

    def truncate(self, size_bytes: int) -> None:
        """Cut or extend the page cache."""
        del self.content[size_bytes:]
        self.content += bytes(size_bytes - len(self.content))
        self.changes.append(size_bytes)

    def sync(self) -> None:
        """Everything is durable."""
        self.durable = bytes(self.content)
        self.changes.clear()

    def lose_power(self, dice: Dice) -> None:
        """Keep an arbitrary part of what was not durable."""
        survivor = bytearray(self.durable)
        for change in self.changes:
            fate = dice.choice(("kept", "kept", "lost", "torn"))
            if isinstance(change, int):
                if fate == "kept":
                    del survivor[change:]
                    survivor += bytes(change - len(survivor))
                continue
            if fate == "lost":
                continue
            position, written = change
            for start, piece in _sectors(position, written):
                if fate == "torn" and dice.random() < 0.5:
                    continue
                if start > len(survivor):
                    survivor += bytes(start - len(survivor))
                survivor[start : start + len(piece)] = piece
        self.content = survivor
        self.durable = bytes(survivor)
        self.changes.clear()


def _sectors(position: int, written: bytes) -> list[tuple[int, bytes]]:
    pieces: list[tuple[int, bytes]] = []
    end = position + len(written)
    start = position
    while start < end:
        stop = min(end, (start // SECTOR_SIZE_BYTES + 1) * SECTOR_SIZE_BYTES)
        pieces.append((start, written[start - position : stop - position]))
        start = stop
    return pieces


def _add_directory(names: dict[str, Inode | None], path: str) -> None:
    names[path] = None


class MemoryFile:
    """An open file; unusable after a crash."""

    def __init__(self, disk: "MemoryDisk", path: str, inode: Inode) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self._boot = disk.boot_count

    def _check(self, operation: str) -> None:
        if self._boot != self._disk.boot_count:
            raise OSError(errno.EBADF, "this file was opened before the crash", self.path)
        self._disk.check(operation, self.path)

    def pread(self, position: int, size_bytes: int) -> bytes:
        self._check("pread")
        self._disk.pread_count += 1
        return bytes(self._inode.content[position : position + size_bytes])

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        written = b"".join(bytes(buffer) for buffer in buffers)
        disk = self._disk
        try:
            self._check("pwritev")
        except OSError as error:
            # A write that fails may have written a part.
            if error.errno != errno.EBADF:
                part = disk.random.randrange(len(written) + 1)
                self._inode.write(position, written[:part])
            raise
        room = disk.free_bytes(self.path) - max(
            0, position + len(written) - len(self._inode.content)
        )
        if room < 0:
            self._inode.write(position, written[: max(0, len(written) + room)])
            raise OSError(errno.ENOSPC, "no space left on this disk", self.path)
        self._inode.write(position, written)
        self._inode.modified_ms = disk.now_ms

    def size(self) -> int:
        self._check("size")
        return len(self._inode.content)

    def modified_ms(self) -> int:
        self._check("size")
        return self._inode.modified_ms

    def truncate(self, size_bytes: int) -> None:
        self._check("truncate")
        self._inode.truncate(size_bytes)

    def fsync(self) -> None:
        self._check("fsync")
        self._inode.sync()

    def fileno(self) -> None:
        return None

    def close(self) -> None:
        self._boot = -1


class MemoryLock:
    """A lock that ends with the process, that is, with a crash."""

    def __init__(self, disk: "MemoryDisk", path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.locks.discard(self._path)


class MemoryDisk:
    """See the module.

    Attributes:
        now_ms: Written into files as their modification time.
        boot_count: How many crashes there were.
        capacity_bytes: Bytes in all files together, None for no limit.
        fault: Decides which operations fail.
        locks: Paths that are locked.
        pread_count: Reads so far, for tests that count them.
    """

    def __init__(self, random: Dice, *, capacity_bytes: int | None = None) -> None:
        self.random = random
        self.capacity_bytes = capacity_bytes
        self.fault: Fault | None = None
        self.boot_count = 0
        self.now_ms = 0
        self.pread_count = 0
        self.locks: set[str] = set()
        self._names: dict[str, Inode | None] = {}  # None is a directory
        self._durable_names: dict[str, Inode | None] = {}
        # Changes of names since the last sync of a directory, in order.
        self._journal: list[Callable[[dict[str, Inode | None]], None]] = []

    # --- faults ------------------------------------------------------------------------------

    def check(self, operation: str, path: str) -> None:
        """Raise if the fault says so."""
        code = self.fault(operation, path) if self.fault is not None else None
        if code is not None:
            raise OSError(code, f"{operation} fails on purpose", path)

    def fail(self, operation: str, path_part: str = "", *, code: int = errno.EIO) -> None:
        """Make this operation fail on paths that contain `path_part`, until `heal`."""

        def fault(current: str, path: str) -> int | None:
            return code if current == operation and path_part in path else None

        self.fault = fault

    def heal(self) -> None:
        """No more faults, no limit."""
        self.fault = None
        self.capacity_bytes = None

    def flip_bit(self, path: str, bit: int) -> None:
        """Change one bit of a file, in the page cache and on the disk."""
        inode = self._file(path)
        inode.content[bit // 8] ^= 1 << bit % 8
        inode.sync()

    def crash(self, *, power_loss: bool = False) -> None:
        """Kill the process; with `power_loss` lose what was not synced."""
        self.boot_count += 1
        self.locks.clear()
        self.heal()
        if not power_loss:
            return
        kept = self.random.randrange(len(self._journal) + 1)
        for change in self._journal[:kept]:
            change(self._durable_names)
        self._journal.clear()
        self._names = dict(self._durable_names)
        for inode in {id(inode): inode for inode in self._names.values()}.values():
            if inode is not None:
                inode.lose_power(self.random)

    def paths(self, suffix: str = "") -> list[str]:
        """All files with this suffix, sorted."""
        return sorted(
            path
            for path, inode in self._names.items()
            if inode is not None and path.endswith(suffix)
        )

    def content(self, path: str) -> bytes:
        """A file's bytes, without counting or failing."""
        return bytes(self._file(path).content)

    # --- Disk --------------------------------------------------------------------------------

    def _file(self, path: str) -> Inode:
        inode = self._names.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return inode

    def _change_names(self, change: Callable[[dict[str, Inode | None]], None]) -> None:
        change(self._names)
        self._journal.append(change)

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        self.check("open", path)
        if path not in self._names and create:
            self.check("create", path)
            if not self.exists(path.rpartition("/")[0]):
                raise FileNotFoundError(errno.ENOENT, "no such directory", path)
            inode = Inode()
            inode.modified_ms = self.now_ms
            self._change_names(lambda names: names.update({path: inode}))
        return MemoryFile(self, path, self._file(path))

    def exists(self, path: str) -> bool:
        return path in self._names

    def file_size(self, path: str) -> int:
        return len(self._file(path).content)

    def list_directory(self, path: str) -> list[str]:
        self.check("list_directory", path)
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        prefix = path + "/"
        return sorted(
            name[len(prefix) :]
            for name in self._names
            if name.startswith(prefix) and "/" not in name[len(prefix) :]
        )

    def make_directory(self, path: str) -> None:
        self.check("create", path)
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            directory = "/".join(parts[:count])
            if directory not in self._names:
                self._change_names(partial(_add_directory, path=directory))

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        if source not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)

        def change(names: dict[str, Inode | None]) -> None:
            for name in list(names):
                if name == source or name.startswith(source + "/"):
                    names[target + name[len(source) :]] = names.pop(name)

        self._change_names(change)

    def remove(self, path: str) -> None:
        self.check("remove", path)
        if path in self._names:

            def change(names: dict[str, Inode | None]) -> None:
                names.pop(path, None)

            self._change_names(change)

    def remove_directory(self, path: str) -> None:
        self.check("remove", path)

        def change(names: dict[str, Inode | None]) -> None:
            for name in list(names):
                if name == path or name.startswith(path + "/"):
                    del names[name]

        self._change_names(change)

    def sync_directory(self, path: str) -> None:
        self.check("sync_directory", path)
        for change in self._journal:
            change(self._durable_names)
        self._journal.clear()

    def read_file(self, path: str, *, size_bytes_max: int) -> bytes:
        return self.open(path).pread(0, size_bytes_max)

    def replace_file(self, path: str, content: Buffer, *, sync: bool) -> None:
        temporary_path = path + ".tmp"
        file = self.open(temporary_path, create=True)
        file.truncate(0)
        file.pwritev([content], 0)
        if sync:
            file.fsync()
        self.rename(temporary_path, path)
        if sync:
            self.sync_directory(path.rpartition("/")[0])

    def lock(self, path: str) -> MemoryLock:
        if path in self.locks:
            raise DirectoryLocked(f"{path} is locked by the process with id 1")
        self.open(path, create=True)
        self.locks.add(path)
        return MemoryLock(self, path)

    def write_back(self, path: str) -> None:
        """Promises nothing, so nothing is durable afterwards."""
        self.check("write_back", path)

    def free_bytes(self, path: str) -> int:
        del path
        if self.capacity_bytes is None:
            return 2**62
        used = sum(len(inode.content) for inode in self._names.values() if inode is not None)
        return self.capacity_bytes - used
