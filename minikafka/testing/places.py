"""Where brokers for tests live: ports that stay theirs, and directories that are removed."""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
from pathlib import Path
from typing import Final

_HOLDS_PORTS: Final = sys.platform == "linux"
"""Linux lets a second socket listen on a port that the first has bound and does not listen on."""


class Address:
    """Where a server listens, also while it is down.

    A free port is bound until `release`, so that nothing else takes it before the server starts or
    while it is being restarted. The server can still listen there, because both sockets set
    SO_REUSEADDR and only one of them listens. Elsewhere than on Linux the port is merely picked.

    Args:
        text: ``HOST:PORT``; port 0 is replaced by a free one.
    """

    def __init__(self, text: str) -> None:
        self.host, _, port = text.rpartition(":")
        self.port = int(port)
        self._held: socket.socket | None = None
        if self.port == 0:
            family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
            held = socket.socket(family)
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((self.host.strip("[]"), 0))
            self.port = int(held.getsockname()[1])
            if _HOLDS_PORTS:
                self._held = held
            else:
                held.close()

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def release(self) -> None:
        """Give the port back."""
        if self._held is not None:
            self._held.close()
            self._held = None


class Workspace:
    """A directory, temporary or not.

    Args:
        directory: an existing or new one, which is kept; None for a temporary one.
        keep: keep the temporary one as well.
    """

    def __init__(self, directory: Path | str | None, keep: bool) -> None:
        self._given = None if directory is None else Path(directory)
        self._keeps = keep
        self._temporary: Path | None = None

    @property
    def path(self) -> Path:
        """Where it is; made when it is first needed, and not again after its removal."""
        if self._given is not None:
            self._given.mkdir(parents=True, exist_ok=True)
            return self._given
        if self._temporary is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="minikafka-testing-"))
        return self._temporary

    @property
    def is_kept(self) -> bool:
        """Whether somebody looks at it afterwards."""
        return self._given is not None or self._keeps

    def remove(self) -> None:
        """Remove it if it is temporary and not to be kept."""
        if self._temporary is not None and not self._keeps:
            shutil.rmtree(self._temporary, ignore_errors=True)
