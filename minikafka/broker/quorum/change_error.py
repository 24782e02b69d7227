"""Why the metadata did not change, or why that is unknown."""

from __future__ import annotations

from contextvars import ContextVar

from ...protocol.errors import ErrorCode


class ChangeError(Exception):
    """A change of the metadata failed; ``error_code`` is for the client.

    KAFKA_STORAGE_ERROR: the disk failed. NOT_CONTROLLER: nothing happened, and another node has to
    be asked, or none is known. REQUEST_TIMED_OUT: it may have happened or may still happen.
    """

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message


FORWARDING_FAILURE: ContextVar[ChangeError | None] = ContextVar("forwarding_failure", default=None)
"""Set while a handler only has to say that its request could not be forwarded: every change that it
tries fails with this, also when this node has become the controller meanwhile, because the request
may have been carried out."""
