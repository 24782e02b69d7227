"""Key and trust stores as Java programs have them: PEM files, PKCS#12 files, and JKS refused.

PKCS#12 is read with the ``cryptography`` package, which is not a dependency of ours:
``pip install minikafka[pkcs12]``.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

__all__ = ["Store", "StoreError", "read_pkcs12", "store_type"]

_JKS_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_DER_SEQUENCE: Final = b"\x30"
_TYPES: Final = ("PEM", "PKCS12", "JKS")


class StoreError(ValueError):
    """A store cannot be used; the message begins with the property that names it."""


class Store(NamedTuple):
    """What a PKCS#12 file holds, as PEM texts; empty where it holds none.

    Attributes:
        key: the private key, encrypted with the store's password if it has one.
        certificates: the key's own first, if there is a key, and all others.
    """

    key: str
    certificates: str

    def __repr__(self) -> str:
        return "Store([hidden])"


def store_type(name: str, location: str, given: str) -> str:
    """The type of a store: ``PEM`` or ``PKCS12``.

    A file has the last word where both are possible: what ``keytool`` calls JKS has been PKCS#12
    since Java 9, and without ``given`` it says what it is itself.

    Args:
        name: ``ssl.keystore`` or ``ssl.truststore``.
        location: the file.
        given: the property ``<name>.type``, or empty.

    Raises:
        StoreError: it is a Java key store (JKS), or ``given`` is unknown.
        OSError: the file cannot be read.
    """
    kind = given.upper() or "PEM"
    if kind not in _TYPES:
        raise StoreError(f"{name}.type={given!r}; it is PEM or PKCS12")
    if not location:
        if kind != "PEM":
            raise StoreError(f"{name}.type={given!r} without a file; set {name}.location")
        return kind
    with open(location, "rb") as file:
        beginning = file.read(4)
    if beginning in _JKS_MAGIC:
        raise StoreError(
            f"{name}.location={location!r} is a Java key store (JKS), which only Java can read; "
            f"convert it with keytool -importkeystore -srckeystore {location} "
            f"-destkeystore {location}.p12 -deststoretype PKCS12"
        )
    if kind == "JKS" or not given:
        return "PKCS12" if beginning.startswith(_DER_SEQUENCE) else "PEM"
    return kind


def read_pkcs12(name: str, location: str, password: str | None) -> Store:
    """Read a PKCS#12 file.

    Args:
        name: ``ssl.keystore`` or ``ssl.truststore``.
        location: the file.
        password: of the file.

    Raises:
        StoreError: it cannot be read, for instance because of a wrong password, or the package
            ``cryptography`` is missing.
        OSError: there is no such file, or it cannot be opened.
    """
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise StoreError(
            f"{name}.type='PKCS12' needs the package cryptography; pip install minikafka[pkcs12],"
            f" or export the store: openssl pkcs12 -in {location} -out {location}.pem"
        ) from None
    with open(location, "rb") as file:
        content = file.read()
    secret = None if password is None else password.encode()
    try:
        found = pkcs12.load_pkcs12(content, secret)
    except ValueError:
        raise StoreError(
            f"{name}.location={location!r} cannot be read; is {name}.password right, and the file "
            "PKCS#12?"
        ) from None
    certificates: list[Any] = [] if found.cert is None else [found.cert.certificate]
    certificates += [one.certificate for one in found.additional_certs]
    texts = [one.public_bytes(serialization.Encoding.PEM).decode() for one in certificates]
    key = ""
    if found.key is not None:
        encryption = (
            serialization.BestAvailableEncryption(secret)
            if secret
            else serialization.NoEncryption()
        )
        key = found.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        ).decode()
    return Store(key, "".join(texts))
