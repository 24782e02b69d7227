"""How the demo's clients reach the cluster: plainly, or with ``SECURE=1`` over TLS, as a user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from minikafka import testing
from minikafka_client import AdminClient
from minikafka_client.acls import Acl, AclOperation, AclResourceType
from minikafka_client.options import ConnectionOptions
from minikafka_client.properties import admin_options

NODES: Final = 3
USER: Final = "flights"
_USERS: Final = {"admin": "admin-secret", USER: "flights-secret"}
_LISTENER: Final = "SASL_SSL"


@dataclass(frozen=True)
class Connection:
    """A cluster, and who asks.

    Attributes:
        bootstrap: addresses of brokers.
        properties: security, by the names of Java's clients and, with a prefix, of Spark.
    """

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def options(self) -> ConnectionOptions:
        """The same for our clients."""
        servers = {"bootstrap.servers": self.bootstrap}
        return admin_options({**servers, **self.properties}, "the demo")[1]

    def write(self, path: Path) -> None:
        """Write a file ``client.properties``."""
        lines = {"bootstrap.servers": self.bootstrap, **self.properties}
        text = "".join(f"{name}={value}\n" for name, value in lines.items())
        _write_private(path, text.encode())


class SecureCluster:
    """Three brokers with TLS, SCRAM and ACLs; certificates and users are made here.

    The plain listener of each is for the demo itself, which asks it who leads, and is reached from
    this machine only.

    Args:
        directory: for the certificates.
    """

    def __init__(self, directory: Path) -> None:
        import trustme  # only with SECURE=1

        directory.mkdir(parents=True, mode=0o700)
        self._ca_path = directory / "ca.pem"
        authority = trustme.CA(organization_name="minikafka demo")
        authority.cert_pem.write_to_path(self._ca_path)
        keystore = directory / "broker.pem"
        own = authority.issue_cert("127.0.0.1", "localhost")
        _write_private(keystore, own.private_key_and_cert_chain_pem.bytes())
        words: list[str] = []
        for name, password in _USERS.items():
            _write_private(directory / name, f"{password}\n".encode())
            words += ["--user", name, "--password-file", str(directory / name)]
        node = testing.NodeOptions(
            listen=f"PLAINTEXT://127.0.0.1:0,{_LISTENER}://127.0.0.1:0", arguments=words
        )
        self.nodes = [node] * NODES
        self.settings: dict[str, testing.Setting] = {
            "ssl.keystore.location": str(keystore),
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "authorizer.class.name": "standard",
            "super.users": "User:admin;User:ANONYMOUS",
        }

    def connection(self, cluster: testing.Cluster, user: str = USER) -> Connection:
        """How a user connects."""
        addresses = [node.bootstrap_of(_LISTENER) for node in cluster.nodes.values()]
        return Connection(
            ",".join(addresses),
            {
                "security.protocol": _LISTENER,
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": user,
                "sasl.password": _USERS[user],
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self._ca_path),
            },
        )

    async def let_in(self, cluster: testing.Cluster) -> Connection:
        """Let the demo's user use topics, groups and transactions; returns how it connects."""
        admin = self.connection(cluster, "admin")
        kinds = (
            AclResourceType.TOPIC,
            AclResourceType.GROUP,
            AclResourceType.TRANSACTIONAL_ID,
        )
        rules = [Acl(kind, "*", f"User:{USER}", AclOperation.ALL) for kind in kinds]
        async with AdminClient(admin.bootstrap, **admin.options) as client:
            await client.create_acls(rules)
        return self.connection(cluster)


def _write_private(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
