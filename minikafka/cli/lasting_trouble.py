"""What a library keeps warning of, for people at a terminal: each thing once."""

from __future__ import annotations

import logging
from typing import Final

from .failure import one_line
from .output import note

_REMEMBERED_MAX: Final = 100


class _RepeatedOnce(logging.Handler):
    """Notes a warning on stderr when it comes for the second time, and never again.

    What happens once is either over by then, or becomes the command's error; a client that tries
    again and again is worth a line.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._times: dict[tuple[str, int], int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Count it by the line of code that warns."""
        source = (record.pathname, record.lineno)
        if source in self._times or len(self._times) < _REMEMBERED_MAX:
            self._times[source] = self._times.get(source, 0) + 1
            if self._times[source] == 2:
                note(one_line(record.getMessage()))


def hide_warnings(logger_name: str) -> None:
    """Show no warning of a library."""
    logger = logging.getLogger(logger_name)
    logger.handlers[:] = [logging.NullHandler()]
    logger.propagate = False


def show_lasting_trouble(logger_name: str) -> None:
    """Show what a library warns of repeatedly."""
    logging.getLogger(logger_name).handlers[:] = [_RepeatedOnce()]
