"""Kafka's security protocols: what happens on a connection before its first request."""

from __future__ import annotations

from enum import Enum

__all__ = ["SecurityProtocol"]


class SecurityProtocol(Enum):
    """One of Kafka's four; the value is its name in settings."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def is_tls(self) -> bool:
        """Whether the bytes are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def is_sasl(self) -> bool:
        """Whether the client logs in with a SASL mechanism."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
