"""A disk that is full on command: what makes files longer fails, the rest works.

The files of the metadata quorum are spared, as if they were on a disk of their own: a node that
cannot write those is out of the cluster, and its clients see that rather than a full disk.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from minikafka.storage.disk import Buffer, RealDisk, RealFile

_SPARED_PREFIX: Final = "quorum"


def _no_space(path: str) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


class FillableDisk(RealDisk):
    """The machine's disk, full or not.

    Attributes:
        is_full: whether to be full.
    """

    __slots__ = ("is_full",)

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False

    def _file(self, path: str, descriptor: int) -> RealFile:
        is_spared = PurePath(path).name.startswith(_SPARED_PREFIX)
        return RealFile(path, descriptor) if is_spared else _File(path, descriptor, self)

    def replace_file(self, path: str, content: Buffer, *, sync: bool) -> None:
        """As on a real disk; the new file has to fit beside the old one."""
        if self.is_full and not PurePath(path).name.startswith(_SPARED_PREFIX):
            raise _no_space(path)
        super().replace_file(path, content, sync=sync)

    def free_bytes(self, path: str) -> int:
        """None when it is full."""
        return 0 if self.is_full else super().free_bytes(path)


class _File(RealFile):
    __slots__ = ("_disk",)

    def __init__(self, path: str, descriptor: int, disk: FillableDisk) -> None:
        super().__init__(path, descriptor)
        self._disk = disk

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        if self._disk.is_full and position + sum(map(len, buffers)) > self.size():
            raise _no_space(self.path)
        super().pwritev(buffers, position)
