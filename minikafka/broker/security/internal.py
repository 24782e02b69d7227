"""What protects the internal listener: a shared secret, mutual TLS, or both.

Whoever reaches the internal listener of a cluster without protection can be a node of it. So one of
the two is required as soon as that listener can be reached from another machine.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Sequence
from typing import NamedTuple

from ...metadata.setting_table import BrokerConfig
from ...metadata.settings import InvalidSettingError, Password, Value
from ...security.node_proof import SECRET_LENGTH_MIN
from ..settings.topology import Topology
from .key_material import read_private
from .tls import TlsFiles, TlsOfListener, build_context

__all__ = ["UNPROTECTED", "InternalSecurity", "InternalTls", "internal_security", "require_closed"]

_PREFIX = "minikafka.internal."
_OWN = ("ssl.keystore.", "ssl.truststore.", "ssl.key.")


class InternalTls:
    """Mutual TLS between nodes.

    Attributes:
        accepting: for connections that other nodes make.
        connecting: for those that this node makes.
    """

    def __init__(self, config: BrokerConfig) -> None:
        def value_of(name: str) -> Value:
            return config.value_of(_PREFIX + name if name.startswith(_OWN) else name)

        self._where = "the internal listener (minikafka.internal.ssl.*)"
        self.files = TlsFiles(value_of, self._where)
        self.accepting: ssl.SSLContext
        self.connecting: ssl.SSLContext
        self.build()

    def build(self) -> None:
        """Read everything.

        Raises:
            InvalidSettingError: something is missing or cannot be used.
        """
        identity = self.files.identity("required")
        self.accepting = build_context(identity, self._where)
        self.connecting = build_context(identity, self._where, is_client=True)


class InternalSecurity(NamedTuple):
    """What other nodes have to show.

    Attributes:
        secret: empty if none is asked for.
        tls: None if connections are plain.
    """

    secret: Password = Password()
    tls: InternalTls | None = None

    @property
    def is_closed(self) -> bool:
        """Whether strangers are kept out."""
        return bool(self.secret) or self.tls is not None


UNPROTECTED = InternalSecurity()


def internal_security(config: BrokerConfig) -> InternalSecurity:
    """Read what protects the internal listener.

    Raises:
        InvalidSettingError: a file cannot be used, the secret is short, or something is missing.
    """
    given = config.minikafka_internal_secret
    path = config.minikafka_internal_secret_file
    if given and path:
        raise InvalidSettingError(
            "minikafka.internal.secret and minikafka.internal.secret.file exclude each other"
        )
    if path:
        content = read_private(path, "minikafka.internal.secret.file")
        given = Password(content.decode("utf-8", "replace").strip())
        if not given:
            raise InvalidSettingError(f"minikafka.internal.secret.file={path} is empty")
    if given and len(given.reveal()) < SECRET_LENGTH_MIN:
        raise InvalidSettingError(
            f"the secret of the internal listener has fewer than {SECRET_LENGTH_MIN} characters; "
            "make one with: openssl rand -hex 32"
        )
    tls = InternalTls(config) if config.minikafka_internal_ssl_enable else None
    return InternalSecurity(given, tls)


def require_closed(
    topology: Topology, security: InternalSecurity, listeners: Sequence[TlsOfListener]
) -> None:
    """Refuse an internal listener that strangers could walk into.

    Raises:
        InvalidSettingError: it can be reached from other machines and asks for nothing, or for
            nothing but a certificate that clients have, too.
    """
    if not topology.is_clustered:
        return
    host, port = topology.internal
    if not (security.is_closed or _is_loopback(host)):
        raise InvalidSettingError(
            f"the internal listener {host or '(all addresses)'}:{port} can be reached from other "
            "machines, and nothing keeps strangers out, who could act as nodes of the cluster; "
            "give all nodes the same minikafka.internal.secret.file (openssl rand -hex 32 > "
            "secret; chmod 600 secret), or certificates (minikafka.internal.ssl.enable=true), or "
            "let it listen on 127.0.0.1"
        )
    if security.tls is not None and not security.secret:
        own = security.tls.files.trusted()
        for one in listeners:
            if one.accepts_certificates and one.files.trusted() == own:
                raise InvalidSettingError(
                    f"listener {one.listener.name} trusts the same certificates as the internal "
                    "listener, so every client with a certificate could act as a node; use an "
                    "authority of its own for nodes, or set minikafka.internal.secret.file as well"
                )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = {str(one[4][0]) for one in socket.getaddrinfo(host, None)} if host else set[str]()
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(one).is_loopback for one in found)
