"""Client listeners: where the broker listens, under which names, and with which security.

The settings are Kafka's: ``listeners`` and ``advertised.listeners`` are lists of
``NAME://HOST:PORT``, and ``listener.security.protocol.map`` says what the names mean. An address
without a name is a plain one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ...metadata.setting_table import LISTENER_PREFIX, BrokerConfig, listener_prefix
from ...metadata.settings import InvalidSettingError
from ...security.protocols import SecurityProtocol
from .addresses import parse_address, render_address

__all__ = ["PLAINTEXT_LISTENER", "Listener", "listeners_of", "render_listeners"]

_ANY_ADDRESS = ("0.0.0.0", "::", "")
LISTENERS_MAX: Final = 64


class Listener(NamedTuple):
    """One client listener.

    Attributes:
        name: in upper case; the prefix of its own settings is ``listener.name.<name>.`` in lower
            case.
        protocol: what a connection does before its first request.
        host: where it listens; empty for all of this machine's addresses.
        port: 0 picks a free one.
        advertised: the host and port that Metadata answers on this listener give. Port 0 stands
            for the one that it listens on; None for a listener that clients are not told of.
    """

    name: str
    protocol: SecurityProtocol
    host: str = ""
    port: int = 0
    advertised: tuple[str, int] | None = ("", 0)


PLAINTEXT_LISTENER: Final = Listener("PLAINTEXT", SecurityProtocol.PLAINTEXT)
"""What connections are taken to be on that no listener accepted, in tests for instance."""


def listeners_of(config: BrokerConfig) -> tuple[Listener, ...]:
    """The listeners that settings describe.

    Raises:
        InvalidSettingError: they are malformed, contradict each other, or leave something open.
    """
    protocols = _protocols(config.listener_security_protocol_map)
    listening = _parse("listeners", config.listeners)
    advertised = _parse("advertised.listeners", config.advertised_listeners)
    if not listening:
        raise InvalidSettingError(
            "listeners is empty; name where clients connect, as in PLAINTEXT://127.0.0.1:9092"
        )
    for name in (*listening, *advertised):
        if name not in protocols:
            raise InvalidSettingError(
                f"Listener {name} has no protocol; add {name}:SSL, {name}:PLAINTEXT or another to "
                "listener.security.protocol.map"
            )
    unknown = [name for name in advertised if name not in listening]
    if unknown:
        raise InvalidSettingError(
            f"advertised.listeners names {unknown[0]}, which is not among listeners"
        )
    _check_ports(listening)
    _check_own_settings(config, listening)
    found: list[Listener] = []
    for name, (host, port) in listening.items():
        given = advertised.get(name) if advertised else (host, port)
        if given is not None and given[0] in _ANY_ADDRESS:
            raise InvalidSettingError(
                f"clients cannot connect to {given[0]!r}, the address to listen on; add "
                f"--advertise HOST:PORT (advertised.listeners, {name}) with a name or address by "
                "which they reach this machine"
            )
        found.append(Listener(name, protocols[name], host, port, given))
    return tuple(found)


def render_listeners(listeners: Sequence[tuple[str, str, int]]) -> tuple[str, ...]:
    """Name, host and port of each, as in the settings."""
    return tuple(f"{name}://{render_address(host, port)}" for name, host, port in listeners)


def _protocols(texts: Sequence[str]) -> dict[str, SecurityProtocol]:
    found: dict[str, SecurityProtocol] = {}
    for text in texts:
        name, _, protocol = (part.strip().upper() for part in text.partition(":"))
        if protocol not in SecurityProtocol.__members__ or not name:
            raise InvalidSettingError(
                f"listener.security.protocol.map: {text!r} is not NAME:PROTOCOL with one of "
                f"{', '.join(SecurityProtocol.__members__)}"
            )
        if name in found:
            raise InvalidSettingError(f"listener.security.protocol.map names {name} twice")
        found[name] = SecurityProtocol[protocol]
    return found


def _parse(setting: str, texts: Sequence[str]) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    if len(texts) > LISTENERS_MAX:
        raise InvalidSettingError(
            f"{setting} has {len(texts)} addresses; at most {LISTENERS_MAX} are allowed"
        )
    for text in texts:
        scheme, separator, address = text.partition("://")
        name = scheme.strip().upper() if separator else PLAINTEXT_LISTENER.name
        if not name:
            raise InvalidSettingError(f"{setting}: {text!r} is not NAME://HOST:PORT")
        if name in found:
            raise InvalidSettingError(
                f"{setting} names {name} twice; give each listener a name of its own, and its "
                "protocol in listener.security.protocol.map"
            )
        found[name] = parse_address(address if separator else text)
    return found


def _check_ports(listening: dict[str, tuple[str, int]]) -> None:
    taken: dict[int, str] = {}
    for name, (host, port) in listening.items():
        other = taken.get(port) if port else None
        # One port may serve IPv4 and IPv6 in two listeners, as in Kafka.
        if other is not None and (":" in host) == (":" in listening[other][0]):
            raise InvalidSettingError(f"listeners {other} and {name} have the same port {port}")
        taken[port] = name


def _check_own_settings(config: BrokerConfig, listening: dict[str, tuple[str, int]]) -> None:
    prefixes = tuple(map(listener_prefix, listening))
    for name in config.listener_settings:
        if not name.startswith(prefixes):
            known = ", ".join(f"{LISTENER_PREFIX}{one.lower()}" for one in listening)
            raise InvalidSettingError(f"{name} is for no listener of this broker: {known}")
