"""Addresses as HOST:PORT, in settings and flags."""

from __future__ import annotations

from ...metadata.settings import InvalidSettingError

NODE_ID_MAX = 2**31 - 1
_PORT_MAX = 65_535


def parse_address(text: str) -> tuple[str, int]:
    """Parse ``HOST:PORT`` (``[::1]:9092`` for IPv6), which may begin with ``PLAINTEXT://``.

    Raises:
        InvalidSettingError: the port is missing or not a number from 0 to 65535, or the protocol is
            not supported.
    """
    address = text
    if "://" in text:
        scheme, _, address = text.partition("://")
        if scheme.upper() != "PLAINTEXT":
            raise InvalidSettingError(f"{text!r}: only PLAINTEXT:// may stand before this address")
    host, separator, port = address.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > _PORT_MAX:
        raise InvalidSettingError(
            f"An address is HOST:PORT with a port from 0 to {_PORT_MAX}, not {address!r}"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def render_address(host: str, port: int) -> str:
    """The inverse of `parse_address`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
