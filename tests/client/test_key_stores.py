"""Key and trust stores of Java programs, and what is said about those that cannot be used."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from minikafka_client.key_stores import read_pkcs12
from minikafka_client.properties import admin_options

PASSWORD = "store secret"


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with key.p12, trust.p12, open.p12 (without a password) and old.jks."""
    folder = tmp_path_factory.mktemp("stores")
    authority = trustme.CA()
    own = authority.issue_cert("client.example")
    key = serialization.load_pem_private_key(own.private_key_pem.bytes(), None)
    certificate = x509.load_pem_x509_certificate(own.cert_chain_pems[0].bytes())
    issuer = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    encryption = serialization.BestAvailableEncryption(PASSWORD.encode())
    (folder / "key.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(b"me", key, certificate, [issuer], encryption)  # type: ignore[arg-type]  # the key is an EC key
    )
    trusted = [pkcs12.PKCS12Certificate(issuer, b"ca")]
    (folder / "trust.p12").write_bytes(pkcs12.serialize_java_truststore(trusted, encryption))
    (folder / "open.p12").write_bytes(
        pkcs12.serialize_java_truststore(trusted, serialization.NoEncryption())
    )
    (folder / "old.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2rest")
    return folder


def context_of(**properties: str) -> ssl.SSLContext:
    config = {name.replace("_", "."): value for name, value in properties.items()}
    servers = {"bootstrap.servers": "a:1", "security.protocol": "SSL"}
    _, options = admin_options({**servers, **config}, "AdminClient")
    context = options.get("ssl_context")
    assert context is not None
    return context


@pytest.mark.parametrize("kind", ["PKCS12", "pkcs12", "JKS", ""])
def test_pkcs12_stores_are_used_whatever_java_calls_them(stores: Path, kind: str) -> None:
    types = {"ssl_truststore_type": kind, "ssl_keystore_type": kind} if kind else {}
    context = context_of(
        ssl_truststore_location=str(stores / "trust.p12"),
        ssl_truststore_password=PASSWORD,
        ssl_keystore_location=str(stores / "key.p12"),
        ssl_keystore_password=PASSWORD,
        **types,
    )
    assert len(context.get_ca_certs()) == 1


def test_a_store_may_have_no_password(stores: Path) -> None:
    context = context_of(ssl_truststore_location=str(stores / "open.p12"))
    assert len(context.get_ca_certs()) == 1


def test_a_key_store_holds_the_key_and_its_chain(stores: Path) -> None:
    store = read_pkcs12("ssl.keystore", str(stores / "key.p12"), PASSWORD)
    assert store.key.startswith("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    assert store.certificates.count("BEGIN CERTIFICATE") == 2
    assert "PRIVATE" not in repr(store)


@pytest.mark.parametrize(
    ("file", "password", "reason"),
    [
        ("trust.p12", "wrong", "is ssl.truststore.password right"),
        ("trust.p12", "", "is ssl.truststore.password right"),
        ("old.jks", PASSWORD, "keytool -importkeystore -srckeystore .*old.jks -destkeystore"),
        ("missing.p12", PASSWORD, "No such file"),
    ],
)
def test_a_store_that_cannot_be_used_says_why(
    stores: Path, file: str, password: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        context_of(ssl_truststore_location=str(stores / file), ssl_truststore_password=password)
    assert PASSWORD not in str(caught.value)


def test_a_key_store_without_a_key_is_refused(stores: Path) -> None:
    with pytest.raises(ValueError, match="holds no private key"):
        context_of(ssl_keystore_location=str(stores / "trust.p12"), ssl_keystore_password=PASSWORD)


def test_without_cryptography_the_error_says_what_to_install(
    stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization.pkcs12", None)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    with pytest.raises(ValueError, match=r"pip install minikafka\[pkcs12\]"):
        context_of(
            ssl_truststore_location=str(stores / "trust.p12"), ssl_truststore_password=PASSWORD
        )
