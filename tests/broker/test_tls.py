"""TLS contexts from settings: what is accepted, what refuses the start, and who clients are."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificates

from minikafka.broker.security.tls import TlsError, TlsOfListener
from minikafka.broker.settings.config import load_config
from minikafka.broker.settings.listeners import Listener
from minikafka.metadata.settings import InvalidSettingError
from minikafka.security.principal import ANONYMOUS, Principal
from minikafka.security.protocols import SecurityProtocol
from tests.kit.certificates import Certificates

PASSWORD = "correct horse"
SSL = Listener("SSL", SecurityProtocol.SSL)
SASL_SSL = Listener("SASL_SSL", SecurityProtocol.SASL_SSL)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def keystore(certificates: Certificates) -> Path:
    return certificates.keystore("broker", common_name="broker")


def tls(*assignments: str, listener: Listener = SSL) -> TlsOfListener:
    return TlsOfListener(load_config(None, assignments, {}), listener)


def private(path: Path, content: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path


def encrypted_key(keystore: Path) -> bytes:
    key = load_pem_private_key(keystore.read_bytes(), None)
    return key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD.encode())
    )


def chain(keystore: Path) -> bytes:
    found = load_pem_x509_certificates(keystore.read_bytes())
    return b"".join(one.public_bytes(Encoding.PEM) for one in found)


def pkcs12_store(keystore: Path) -> bytes:
    certificates = load_pem_x509_certificates(keystore.read_bytes())
    key = load_pem_private_key(keystore.read_bytes(), None)
    return pkcs12.serialize_key_and_certificates(
        b"broker",
        key,  # type: ignore[arg-type]  # trustme makes elliptic keys
        certificates[0],
        certificates[1:],
        BestAvailableEncryption(PASSWORD.encode()),
    )


def is_served(found: TlsOfListener, certificates: Certificates) -> bool:
    """A handshake in memory, in which the client checks the certificate."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = found.context.wrap_bio(to_server, to_client, server_side=True)
    client = certificates.client_context().wrap_bio(
        to_client, to_server, server_hostname="localhost"
    )
    sides: list[Callable[[], None]] = [client.do_handshake, server.do_handshake]
    for _ in range(4):
        for side in list(sides):
            try:
                side()
                sides.remove(side)
            except ssl.SSLWantReadError:
                pass
    return not sides


def test_a_pem_file_has_the_key_and_the_chain(keystore: Path, certificates: Certificates) -> None:
    assert is_served(tls(f"ssl.keystore.location={keystore}"), certificates)
    assert is_served(
        tls("ssl.keystore.type=PEM", f"ssl.keystore.location={keystore}"), certificates
    )


def test_keys_may_be_encrypted_and_stand_in_the_settings(
    keystore: Path, certificates: Certificates, tmp_path: Path
) -> None:
    content = encrypted_key(keystore) + chain(keystore)
    path = private(tmp_path / "encrypted.pem", content)
    location, password = f"ssl.keystore.location={path}", f"ssl.key.password={PASSWORD}"
    assert is_served(tls(location, password), certificates)
    texts = (
        f"ssl.keystore.key={encrypted_key(keystore).decode()}",
        f"ssl.keystore.certificate.chain={chain(keystore).decode()}",
    )
    assert is_served(tls(*texts, password), certificates)
    with pytest.raises(InvalidSettingError, match=r"set ssl\.key\.password"):
        tls(location)
    with pytest.raises(InvalidSettingError, match=r"is ssl\.key\.password right") as caught:
        tls(location, "ssl.key.password=something else")
    assert "something else" not in str(caught.value)


def test_pkcs12_stores_of_keys_and_of_trusted_certificates(
    keystore: Path, certificates: Certificates, tmp_path: Path
) -> None:
    path = private(tmp_path / "store.p12", pkcs12_store(keystore))
    settings = [f"ssl.keystore.location={path}", f"ssl.keystore.password={PASSWORD}"]
    assert is_served(tls(*settings), certificates)
    trusting = [
        *settings,
        "ssl.client.auth=required",
        "ssl.truststore.type=PKCS12",
        f"ssl.truststore.location={path}",
        f"ssl.truststore.password={PASSWORD}",
    ]
    assert tls(*trusting).context.verify_mode == ssl.CERT_REQUIRED
    with pytest.raises(InvalidSettingError, match=r"ssl\.keystore\.password is wrong") as caught:
        tls(settings[0], "ssl.keystore.password=guess")
    assert "guess" not in str(caught.value)


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        ([], "set ssl.keystore.location"),
        (["ssl.keystore.key=k"], "set ssl.keystore.certificate.chain"),
        (["ssl.keystore.certificate.chain=c"], "set ssl.keystore.key"),
        (["ssl.keystore.key=k", "ssl.keystore.certificate.chain=c"], "there is no private key"),
        (["ssl.keystore.location={key}", "ssl.keystore.key=k"], "exclude each other"),
        (["ssl.keystore.location=/nowhere"], "No such file"),
        (["ssl.keystore.location={jks}"], "-deststoretype PKCS12"),
        (["ssl.keystore.location={key}", "ssl.keystore.type=JKS"], "keytool"),
        (["ssl.keystore.location={key}", "ssl.keystore.type=BKS"], "use PEM or PKCS12"),
        (["ssl.keystore.location={trusted}"], "there is no private key"),
        (["ssl.keystore.location={key}", "ssl.client.auth=required"], "ssl.truststore.location"),
        (
            ["ssl.keystore.location={key}", "ssl.truststore.location={empty}"],
            "there is no certificate",
        ),
        (
            ["ssl.keystore.location={key}", "ssl.enabled.protocols="],
            "ssl.enabled.protocols is empty",
        ),
        (["ssl.keystore.location={key}", "ssl.cipher.suites=TLS_NOT_ONE"], "does not know"),
        (
            ["ssl.keystore.location={key}", "ssl.cipher.suites=TLS_AES_256_GCM_SHA384"],
            "always offers all three",
        ),
        (
            ["ssl.keystore.location={key}", "ssl.principal.mapping.rules=RULE:x"],
            "ssl.principal.mapping.rules",
        ),
    ],
)
def test_half_a_configuration_refuses_the_start(
    assignments: list[str],
    words: str,
    keystore: Path,
    certificates: Certificates,
    tmp_path: Path,
) -> None:
    jks = private(tmp_path / "store.jks", b"\xfe\xed\xfe\xed" + bytes(100))
    empty = private(tmp_path / "empty.pem", b"")
    trusted = private(tmp_path / "trusted.pem", certificates.trusted.read_bytes())
    files = {"key": keystore, "jks": jks, "empty": empty, "trusted": trusted}
    with pytest.raises(InvalidSettingError) as caught:
        tls(*(one.format(**files) for one in assignments))
    assert words in str(caught.value)
    assert str(caught.value).isascii()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_private_key_that_others_can_read_is_refused(
    keystore: Path, tmp_path: Path, mode: int
) -> None:
    path = private(tmp_path / "key.pem", keystore.read_bytes())
    path.chmod(mode)
    with pytest.raises(InvalidSettingError, match=f"chmod 600 {path}"):
        tls(f"ssl.keystore.location={path}")


def test_versions_and_suites_are_chosen(keystore: Path) -> None:
    location = f"ssl.keystore.location={keystore}"
    found = tls(location).context
    assert found.minimum_version == ssl.TLSVersion.TLSv1_2
    assert found.maximum_version == ssl.TLSVersion.TLSv1_3
    only = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    found = tls(location, f"ssl.cipher.suites={only}").context
    assert found.maximum_version == ssl.TLSVersion.TLSv1_2
    names = {one["name"] for one in found.get_ciphers() if one["protocol"] != "TLSv1.3"}
    assert names == {"ECDHE-ECDSA-AES256-GCM-SHA384"}
    found = tls(location, "ssl.enabled.protocols=TLSv1.3").context
    assert found.minimum_version == ssl.TLSVersion.TLSv1_3


def test_sasl_ssl_asks_for_certificates_only_by_its_own_setting(
    keystore: Path, certificates: Certificates
) -> None:
    settings = [
        f"ssl.keystore.location={keystore}",
        f"ssl.truststore.location={certificates.trusted}",
        "ssl.client.auth=required",
    ]
    assert tls(*settings).accepts_certificates
    assert not tls(*settings, listener=SASL_SSL).accepts_certificates
    own = "listener.name.sasl_ssl.ssl.client.auth=requested"
    assert tls(*settings, own, listener=SASL_SSL).accepts_certificates


def test_the_principal_is_the_name_in_the_certificate(
    keystore: Path, certificates: Certificates
) -> None:
    location = f"ssl.keystore.location={keystore}"
    pem = certificates.keystore("alice", "alice.test", common_name="alice").read_text()
    begin = pem.index("-----BEGIN CERT")
    encoded = ssl.PEM_cert_to_DER_cert(pem[begin : pem.index("-----END CERT") + 25])
    name = "CN=alice,OU=Unit,O=Tests"
    found = tls(location)
    assert found.principal_of(encoded) == Principal("User", name)
    assert found.principal_of(None) == ANONYMOUS
    mapped = tls(location, "ssl.principal.mapping.rules=RULE:^CN=(\\w+),.*$/$1/U")
    assert mapped.principal_of(encoded) == Principal("User", "ALICE")
    with pytest.raises(TlsError, match="no rule"):
        tls(location, "ssl.principal.mapping.rules=RULE:^x$/y/").principal_of(encoded)
    assert tls(location, listener=SASL_SSL).principal_of(encoded) == ANONYMOUS
