"""Keys and certificates from files and settings, as PEM in memory.

Kafka's forms: a PEM file with the private key and its chain, the same as text in the settings
(KIP-651), and PKCS#12. Java's own form, JKS, is refused with the command that converts it.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Final, NamedTuple

from ...metadata.settings import InvalidSettingError, Password

__all__ = ["KeyMaterial", "KeyStoreSettings", "check_private", "read_private", "read_store"]

FILE_SIZE_BYTES_MAX: Final = 4 * 1024 * 1024
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_JKS_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_DER_SEQUENCE: Final = b"\x30"
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL
)
_CERTIFICATE: Final = re.compile(
    r"-----BEGIN ((?:TRUSTED )?CERTIFICATE)-----.*?-----END \1-----", re.DOTALL
)


class KeyMaterial(NamedTuple):
    """What a store holds, as PEM texts; empty where it holds none.

    Attributes:
        private_key: perhaps encrypted.
        certificates: a chain with the owner's first, or trusted ones.
        password: of the private key.
    """

    private_key: str
    certificates: str
    password: Password

    def __repr__(self) -> str:
        return "KeyMaterial([hidden])"


class KeyStoreSettings(NamedTuple):
    """The settings of one store.

    Attributes:
        name: what the names of its settings begin with: ``ssl.keystore``.
        kind: ``PEM``, ``PKCS12``, or empty for what the file looks like.
        location: a file.
        password: of a PKCS#12 file.
        key_password: of the private key.
        is_private: it holds a private key, so nobody else may be able to read it.
    """

    name: str
    kind: str
    location: str
    password: Password
    key_password: Password
    is_private: bool


def check_private(path: str, what: str) -> None:
    """Refuse a file with a secret that other users can read.

    Raises:
        InvalidSettingError: they can, or the file is not there.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise InvalidSettingError(f"{what}={path}: {error.strerror}") from None
    if os.name == "posix" and mode & _OTHERS:
        raise InvalidSettingError(
            f"{what}={path} holds a secret, and users other than its owner may use the file (mode "
            f"{stat.S_IMODE(mode):04o}); chmod 600 {path}"
        )


def read_private(path: str, what: str) -> bytes:
    """The content of a file with a secret.

    Raises:
        InvalidSettingError: it cannot be read, is too large, or others can read it.
    """
    check_private(path, what)
    return _read(path, what)


def read_store(settings: KeyStoreSettings) -> KeyMaterial:
    """Read a key store or a trust store.

    Raises:
        InvalidSettingError: the file cannot be used; the text says why.
    """
    what = f"{settings.name}.location"
    path = settings.location
    content = read_private(path, what) if settings.is_private else _read(path, what)
    kind = settings.kind.upper() or _kind_of(content)
    if kind == "JKS" or content.startswith(_JKS_MAGIC):
        raise InvalidSettingError(
            f"{what}={path} is a Java key store (JKS), which only Java reads; convert it with "
            f"keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 "
            f"-deststoretype PKCS12, and set {settings.name}.type=PKCS12"
        )
    if kind == "PKCS12":
        return _from_pkcs12(settings, content)
    if kind != "PEM":
        raise InvalidSettingError(f"{settings.name}.type={settings.kind}: use PEM or PKCS12")
    try:
        text = content.decode("ascii")
    except UnicodeDecodeError:
        raise InvalidSettingError(
            f"{what}={path} is no PEM file; is {settings.name}.type right?"
        ) from None
    return from_pem(text, settings.key_password)


def from_pem(text: str, key_password: Password) -> KeyMaterial:
    """Take the private key and the certificates out of a PEM text."""
    key = _PRIVATE_KEY.search(text)
    certificates = "\n".join(one[0] for one in _CERTIFICATE.finditer(text))
    return KeyMaterial("" if key is None else key[0], certificates, key_password)


def _read(path: str, what: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_SIZE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidSettingError(f"{what}={path}: {error.strerror}") from None
    if len(content) > FILE_SIZE_BYTES_MAX:
        raise InvalidSettingError(f"{what}={path} has more than {FILE_SIZE_BYTES_MAX} bytes")
    return content


def _kind_of(content: bytes) -> str:
    return "PKCS12" if content.startswith(_DER_SEQUENCE) else "PEM"


def _from_pkcs12(settings: KeyStoreSettings, content: bytes) -> KeyMaterial:
    try:
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
            pkcs12,
        )
    except ImportError:
        raise InvalidSettingError(
            f"{settings.name}.type=PKCS12 needs the package cryptography; pip install "
            "'minikafka[pkcs12]', or convert the store to PEM with openssl pkcs12 -in "
            f"{settings.location} -nodes"
        ) from None
    try:
        found = pkcs12.load_pkcs12(content, settings.password.reveal().encode() or None)
    except ValueError:
        raise InvalidSettingError(
            f"{settings.name}.location={settings.location} cannot be opened; either "
            f"{settings.name}.password is wrong, or it is no PKCS12 file"
        ) from None
    chain = [one.certificate for one in (found.cert, *found.additional_certs) if one is not None]
    key = ""
    if found.key is not None:
        encoded = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        key = encoded.decode()
    certificates = "".join(one.public_bytes(Encoding.PEM).decode() for one in chain)
    return KeyMaterial(key, certificates, Password())
