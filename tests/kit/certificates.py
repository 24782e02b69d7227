"""Certificates and keys for tests of TLS, as files in the forms that brokers and clients read."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme


class Certificates:
    """An authority, and files of what it signed.

    Attributes:
        authority: signs.
        trusted: a PEM file with the authority's certificate.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = trustme.CA(organization_name="Tests")
        self.trusted = directory / "authority.pem"
        self.authority.cert_pem.write_to_path(self.trusted)

    def keystore(self, name: str, *hosts: str, common_name: str | None = None) -> Path:
        """A PEM file with a private key and its chain, as Kafka's PEM keystores are."""
        issued = self.authority.issue_cert(
            *(hosts or ("127.0.0.1", "localhost")),
            common_name=common_name,
            organization_name="Tests",
            organization_unit_name="Unit",
        )
        path = self.directory / f"{name}.pem"
        path.touch(mode=0o600)
        path.write_bytes(issued.private_key_and_cert_chain_pem.bytes())
        return path

    def server_settings(self, name: str = "broker", **others: str) -> dict[str, str]:
        """A broker's settings for TLS."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.keystore(name)),
            **{key.replace("_", "."): value for key, value in others.items()},
        }

    def client_context(self, keystore: Path | None = None) -> ssl.SSLContext:
        """A client's context that trusts the authority, and shows a certificate if there is one."""
        context = ssl.create_default_context(cafile=str(self.trusted))
        if keystore is not None:
            context.load_cert_chain(keystore)
        return context
