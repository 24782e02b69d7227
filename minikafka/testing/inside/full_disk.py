"""A disk that is full on command, and that writes down what was synced.

When it is full, what makes files longer fails, and the rest works. The files of the metadata quorum
are spared, as if they were on a disk of their own: a node that cannot write those is out of the
cluster, and its clients see that rather than a full disk. For what was synced see
`minikafka.testing.power`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import PurePath
from stat import S_ISREG
from typing import Final

from minikafka.storage.disk import Buffer, RealDisk, RealFile
from minikafka.testing.power import SyncRecord

_SPARED_PREFIX: Final = "quorum"


def _no_space(path: str) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


class FillableDisk(RealDisk):
    """The machine's disk, full or not.

    Args:
        record: takes down what was synced; None for nobody.

    Attributes:
        is_full: whether to be full.
    """

    __slots__ = ("is_full", "record")

    def __init__(self, record: SyncRecord | None = None) -> None:
        super().__init__()
        self.is_full = False
        self.record = record

    def _file(self, path: str, descriptor: int) -> RealFile:
        is_spared = PurePath(path).name.startswith(_SPARED_PREFIX)
        return _File(path, descriptor, self, is_spared=is_spared)

    def replace_file(self, path: str, content: Buffer, *, sync: bool) -> None:
        """As on a real disk; the new file has to fit beside the old one."""
        if self.is_full and not PurePath(path).name.startswith(_SPARED_PREFIX):
            raise _no_space(path)
        super().replace_file(path, content, sync=sync)

    def free_bytes(self, path: str) -> int:
        """None when it is full."""
        return 0 if self.is_full else super().free_bytes(path)


class _File(RealFile):
    __slots__ = ("_disk", "_inode", "_is_spared")

    def __init__(self, path: str, descriptor: int, disk: FillableDisk, *, is_spared: bool) -> None:
        super().__init__(path, descriptor)
        self._disk = disk
        self._is_spared = is_spared
        status = os.fstat(descriptor)
        self._inode = status.st_ino
        if disk.record is not None and S_ISREG(status.st_mode) and not status.st_size:
            disk.record.synced(self._inode, 0)  # the number may have been another file's

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        has_room = not self._disk.is_full or self._is_spared
        if not has_room and position + sum(map(len, buffers)) > self.size():
            raise _no_space(self.path)
        super().pwritev(buffers, position)

    def truncate(self, size_bytes: int) -> None:
        super().truncate(size_bytes)
        if self._disk.record is not None:
            self._disk.record.cut(self._inode, size_bytes)

    def fsync(self) -> None:
        size_bytes = self.size()  # what is appended meanwhile may be left out
        super().fsync()
        if self._disk.record is not None:
            self._disk.record.synced(self._inode, size_bytes)
