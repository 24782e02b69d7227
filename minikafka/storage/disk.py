"""The one door to the disk: everything else in storage goes through a `Disk`.

`RealDisk` is the operating system; tests have a `MemoryDisk` that can lose unsynced writes, tear
a write, flip a bit, fill up, or fail. Both raise OSError, and nothing but OSError, when the disk
does not do what it was asked.

What a write means: `pwritev` puts bytes into the page cache (they survive the process, but not a
power failure); `fsync` makes the bytes of one file durable; `sync_directory` makes created, renamed
and removed *names* durable. A rename is atomic: after a crash the old or the new name is there.
"""

import ctypes
import errno
import fcntl
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol, final

from minikafka.storage.errors import DirectoryLocked

Buffer = bytes | bytearray | memoryview

OPEN_FILES_MAX: Final = 512
"""Default limit of a `FileCache`: leaves room for 256 connections within 1024 descriptors."""

OUT_OF_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)
"""What opening a file fails with when the process, or the machine, has too many open."""

_BUFFERS_PER_WRITE_MAX: Final = 512  # Linux takes 1024, POSIX promises 16


class DiskFile(Protocol):
    """An open file. It is closed with the last reference to it, or by `close`."""

    @property
    def path(self) -> str:
        """Where it was when it was opened (a rename does not change it)."""
        ...

    def pread(self, position: int, size_bytes: int) -> bytes:
        """Read up to `size_bytes`; fewer only at the end of the file."""
        ...

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all buffers one after the other; on OSError any part of them may be written."""
        ...

    def size(self) -> int:
        """Size in bytes."""
        ...

    def modified_ms(self) -> int:
        """When it was last written, milliseconds since 1970."""
        ...

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to `size_bytes`."""
        ...

    def fsync(self) -> None:
        """Make its bytes and its size durable."""
        ...

    def fileno(self) -> int | None:
        """Descriptor for os.sendfile; None for a disk in memory."""
        ...

    def close(self) -> None:
        """Close it now, even if it is still referenced; a second call does nothing."""
        ...


class DiskLock(Protocol):
    """An exclusive lock on a file that ends with the process."""

    def release(self) -> None:
        """Release it; a second call does nothing."""
        ...


class Disk(Protocol):
    """What storage needs of a file system. Every method raises OSError on failure."""

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """Open for reading and writing; with `create` make an empty file if there is none."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name exists."""
        ...

    def file_size(self, path: str) -> int:
        """Size of a file in bytes."""
        ...

    def list_directory(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory and its missing parents; it may exist."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory; a file at `target` is replaced atomically."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file if it exists."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove a directory, if it exists, and the files in it."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        ...

    def read_file(self, path: str, *, size_bytes_max: int) -> bytes:
        """The whole file, cut at `size_bytes_max`."""
        ...

    def replace_file(self, path: str, content: Buffer, *, sync: bool) -> None:
        """Write a file so that a reader finds the old or the new content, never a mixture.

        With `sync` the new content is durable on return; without it a power failure may leave an
        empty or torn file, so readers check a CRC.
        """
        ...

    def lock(self, path: str) -> DiskLock:
        """Take an exclusive lock.

        Raises:
            DirectoryLocked: another process holds it; the message names it.
        """
        ...

    def write_back(self, path: str) -> None:
        """Write out all that the file system of `path` holds in memory, where that is possible.

        It promises nothing, but it takes one call, and makes many `fsync` after it fast.
        """
        ...

    def free_bytes(self, path: str) -> int:
        """Bytes that can still be written to the file system of `path`."""
        ...


class FileSlice(NamedTuple):
    """Part of an open file, ready to be sent; it keeps the file open."""

    file: DiskFile
    position: int
    size_bytes: int

    def read(self) -> bytes:
        """The bytes, for a socket that cannot use sendfile.

        Raises:
            OSError: the disk failed, or the file was truncated meanwhile.
        """
        content = self.file.pread(self.position, self.size_bytes)
        if len(content) != self.size_bytes:
            raise OSError(
                f"{self.file.path}: {self.size_bytes} bytes expected at position "
                f"{self.position}, {len(content)} found; was the partition truncated?"
            )
        return content


class FileCache:
    """Keeps at most `open_files_max` files open: the ones used last.

    An evicted file stays open while it is referenced (by a `FileSlice` on its way to the network).
    Any thread may call any method.
    """

    __slots__ = ("_files", "_open_files_max", "disk")

    def __init__(self, disk: Disk, open_files_max: int = OPEN_FILES_MAX) -> None:
        self.disk: Final = disk
        self._open_files_max: Final = max(open_files_max, 1)
        self._files: OrderedDict[str, DiskFile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """The open file of that path.

        Raises:
            OSError: it cannot be opened.
        """
        files = self._files
        try:
            files.move_to_end(path)
            return files[path]
        except KeyError:
            pass  # not open, or another thread evicted it between the two lines
        file = self.disk.open(path, create=create)
        files[path] = file
        try:
            while len(files) > self._open_files_max:
                files.popitem(last=False)
        except KeyError:
            pass  # another thread made room
        return file

    def forget(self, path: str) -> None:
        """Drop a file that was renamed or removed."""
        self._files.pop(path, None)

    def make_room(self) -> None:
        """Drop all files, so that unreferenced ones are closed."""
        for path in list(self._files):
            self._files.pop(path, None)

    def forget_directory(self, directory: str) -> None:
        """Drop all files of a directory that was renamed, removed or is about to be reopened."""
        prefix = directory + "/"
        for path in list(self._files):
            if path.startswith(prefix):
                self._files.pop(path, None)


class RealFile:
    """A file descriptor."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path: Final = path
        self._descriptor = descriptor

    def __del__(self) -> None:
        self.close()

    def pread(self, position: int, size_bytes: int) -> bytes:
        content = os.pread(self._descriptor, size_bytes, position)
        if len(content) == size_bytes or not content:
            return content
        pieces = [content]  # a short read before the end: one read call is at most 2 GiB
        bytes_left = size_bytes - len(content)
        while bytes_left:
            position += len(pieces[-1])
            piece = os.pread(self._descriptor, bytes_left, position)
            if not piece:
                break
            pieces.append(piece)
            bytes_left -= len(piece)
        return b"".join(pieces)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        written = os.pwritev(self._descriptor, buffers[:_BUFFERS_PER_WRITE_MAX], position)
        size_bytes = sum(map(len, buffers))
        if written != size_bytes:
            self._write_rest(buffers, written, position + written)

    def _write_rest(self, buffers: Sequence[Buffer], skip_bytes: int, position: int) -> None:
        for buffer in buffers:
            if skip_bytes >= len(buffer):
                skip_bytes -= len(buffer)
                continue
            view = memoryview(buffer)[skip_bytes:]
            skip_bytes = 0
            while view:
                written = os.pwrite(self._descriptor, view, position)
                view = view[written:]
                position += written

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def modified_ms(self) -> int:
        return os.fstat(self._descriptor).st_mtime_ns // 1_000_000

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._descriptor, size_bytes)

    def fsync(self) -> None:
        os.fdatasync(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _keep_everything() -> None:
    pass


_KINDS: Final = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def _check_regular(path: str, mode: int) -> None:
    """Raise OSError unless the mode is that of a regular file."""
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        reason = f"this is {kind}, where a regular file belongs; move it away"
        raise OSError(errno.EINVAL, reason, path)


@final
class RealLock:
    """An flock; the kernel releases it when the process ends, in whatever way."""

    __slots__ = ("_file",)

    def __init__(self, file: RealFile) -> None:
        self._file: RealFile | None = file

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class RealDisk:
    """The operating system's file system.

    Attributes:
        make_room: Called when there are too many open files, before the one retry.
    """

    __slots__ = ("make_room",)

    def __init__(self) -> None:
        self.make_room: Callable[[], None] = _keep_everything

    def _file(self, path: str, descriptor: int) -> RealFile:
        return RealFile(path, descriptor)

    def _open(self, path: str, flags: int) -> RealFile:
        flags |= os.O_CLOEXEC | os.O_NONBLOCK  # opening a FIFO would wait for its other end
        try:
            file = self._file(path, os.open(path, flags, 0o644))
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                raise
            self.make_room()
            file = self._file(path, os.open(path, flags, 0o644))
        if not flags & os.O_DIRECTORY:
            _check_regular(path, os.fstat(file.fileno()).st_mode)
        return file

    def open(self, path: str, *, create: bool = False) -> RealFile:
        return self._open(path, os.O_RDWR | (os.O_CREAT if create else 0))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def file_size(self, path: str) -> int:
        status = os.stat(path)
        _check_regular(path, status.st_mode)
        return status.st_size

    def list_directory(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                raise
        self.make_room()
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)

    def remove_directory(self, path: str) -> None:
        try:
            for name in os.listdir(path):
                self.remove(os.path.join(path, name))
            os.rmdir(path)
        except FileNotFoundError:
            pass

    def sync_directory(self, path: str) -> None:
        directory = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory.fileno())
        finally:
            directory.close()

    def read_file(self, path: str, *, size_bytes_max: int) -> bytes:
        file = self._open(path, os.O_RDONLY)
        try:
            return file.pread(0, min(file.size(), size_bytes_max))
        finally:
            file.close()

    def replace_file(self, path: str, content: Buffer, *, sync: bool) -> None:
        """Write a temporary file beside it and rename."""
        temporary_path = path + ".tmp"
        file = self._open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            file.pwritev([content], 0)
            if sync:
                file.fsync()
        except OSError:
            os.unlink(temporary_path)  # a full disk needs the room
            raise
        finally:
            file.close()
        os.replace(temporary_path, path)
        if sync:
            self.sync_directory(os.path.dirname(path))

    def lock(self, path: str) -> RealLock:
        """Take an flock and write this process's id into the file."""
        file = self.open(path, create=True)
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = file.pread(0, 32).decode("ascii", "replace").strip() or "unknown"
            file.close()
            raise DirectoryLocked(
                f"{path} is locked by the process with id {holder}: one data directory serves "
                f"one broker; stop that broker or use another --data-dir"
            ) from None
        file.truncate(0)
        file.pwritev([f"{os.getpid()}\n".encode()], 0)
        return RealLock(file)

    def write_back(self, path: str) -> None:
        # Linux has it since 2.6.39; macOS has not.
        syncfs: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "syncfs", None)
        if syncfs is not None:
            directory = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                syncfs(directory.fileno())
            finally:
                directory.close()

    def free_bytes(self, path: str) -> int:
        statistics = os.statvfs(path)
        return statistics.f_bavail * statistics.f_frsize
