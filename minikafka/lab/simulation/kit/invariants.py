"""Named invariants, checked while a simulation runs."""

from __future__ import annotations


class InvariantViolated(AssertionError):
    """A named invariant does not hold."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text


def require(holds: bool, name: str, text: str) -> None:
    if not holds:
        raise InvariantViolated(name, text)
