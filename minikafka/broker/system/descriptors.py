"""How the limit of open files (``ulimit -n``) is divided.

Half of what is not reserved goes to the logs' file cache, half to connections: a broker that runs
out of descriptors could neither roll a segment nor accept a connection. The reserve is for files
that are open for a moment (checkpoints, syncs, compaction) or held by answers on their way out.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import NamedTuple

_RESERVE = 96
_RESERVE_SHARE = 3
_FILES_MAX = 32_768
_UNLIMITED = 1 << 20


class DescriptorBudget(NamedTuple):
    """What may be open at once.

    Attributes:
        files: segments and indexes that the file cache keeps open.
        connections: clients.
    """

    files: int
    connections: int


def raise_limit() -> None:
    """Raise the soft limit of open files to the hard one, if that is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def descriptor_budget() -> DescriptorBudget:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return divide(_UNLIMITED if limit == resource.RLIM_INFINITY else limit)


def divide(limit: int) -> DescriptorBudget:
    free = limit - min(_RESERVE, limit // _RESERVE_SHARE)
    files = max(1, min(free // 2, _FILES_MAX))
    return DescriptorBudget(files, max(1, free - files))
