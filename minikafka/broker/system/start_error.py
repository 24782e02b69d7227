"""Why a node does not start."""

from __future__ import annotations


class StartError(Exception):
    """The node cannot start, or cannot go on; the message says why and what to do."""
