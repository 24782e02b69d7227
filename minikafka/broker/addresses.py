"""Addresses: HOST:PORT as settings and flags have them."""

from __future__ import annotations

from ..metadata.settings import InvalidSettingError

NODE_ID_MAX = 2**31 - 1
_PORT_MAX = 65_535


def parse_address(text: str) -> tuple[str, int]:
    """Split ``HOST:PORT`` (``[::1]:9092`` for IPv6); ``PLAINTEXT://`` may stand before it.

    Raises:
        InvalidSettingError: there is no port, it is not a number from 0 to 65535, or the listener
            is of another kind.
    """
    address = text
    if "://" in text:
        scheme, _, address = text.partition("://")
        if scheme.upper() != "PLAINTEXT":
            raise InvalidSettingError(f"Listener {text!r}: only PLAINTEXT:// is supported so far")
    host, separator, port = address.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > _PORT_MAX:
        raise InvalidSettingError(
            f"An address is HOST:PORT with a port from 0 to {_PORT_MAX}, not {address!r}"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def render_address(host: str, port: int) -> str:
    """Write an address so that `parse_address` reads it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
