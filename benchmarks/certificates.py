"""A broker with a plain listener and one with TLS, and certificates for it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import trustme

from minikafka.testing import Broker, Setting

from .processes import broker


@contextmanager
def secured_broker(folder: Path, **settings: Setting) -> Generator[tuple[Broker, Path]]:
    """Run one during a block; also gives the file with the authority's certificate.

    Args:
        folder: has its data, its log and the certificates.
        settings: of the broker, with ``_`` for dots.
    """
    folder.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA()
    trusted, keystore = folder / "authority.pem", folder / "broker.pem"
    authority.cert_pem.write_to_path(trusted)
    keystore.touch(mode=0o600)
    issued = authority.issue_cert("127.0.0.1")
    keystore.write_bytes(issued.private_key_and_cert_chain_pem.bytes())
    given = {name.replace("_", "."): value for name, value in settings.items()}
    given["ssl.keystore.location"] = str(keystore)
    with broker(folder, given, listen="PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0") as server:
        yield server, trusted
