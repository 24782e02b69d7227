"""Principals: the names under which connections are known (``User:alice``)."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["ANONYMOUS", "BROKER", "USER", "Principal"]

USER: Final = "User"
"""The only type that Kafka's own listeners give."""


class Principal(NamedTuple):
    """A principal, as ACLs, quotas and ``super.users`` name it.

    Attributes:
        type: ``User`` in Apache Kafka.
        name: a user, the distinguished name of a certificate, or what the mapping rules made of it.
    """

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Principal:
        """Parse ``TYPE:NAME``; the name may have colons.

        Raises:
            ValueError: the type or the name is missing.
        """
        kind, separator, name = text.strip().partition(":")
        if not (kind and separator and name):
            raise ValueError(f"a principal is TYPE:NAME, as in User:alice, not {text!r}")
        return cls(kind, name)


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""Who did not have to say who it is."""

BROKER: Final = Principal("Broker", "itself")
"""A broker that asks for something itself, such as an internal topic; no listener names it, and it
may do everything."""
