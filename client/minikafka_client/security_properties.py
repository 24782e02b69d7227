"""Kafka's security properties, translated to TLS contexts and SASL mechanisms.

Certificates are PEM files or PEM texts, as Java clients (KIP-651) and librdkafka take them, or
PKCS#12 files (`minikafka_client.key_stores`).
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from minikafka_client.key_stores import read_pkcs12, store_type
from minikafka_client.oauth import (
    ClientCredentials,
    OAuthBearer,
    token_from_file,
    unsecured_token,
)
from minikafka_client.sasl import Plain, ScramSha256, ScramSha512


def names(text: str) -> frozenset[str]:
    """The names in a text, with blanks between."""
    return frozenset(text.split())


SECURITY_PROPERTIES: Final = names(
    """
    security.protocol sasl.mechanism sasl.mechanisms sasl.jaas.config sasl.username
    sasl.password ssl.truststore.type ssl.truststore.location ssl.truststore.certificates
    ssl.keystore.type ssl.keystore.location ssl.keystore.certificate.chain ssl.keystore.key
    ssl.key.location ssl.key.pem ssl.key.password ssl.certificate.location ssl.certificate.pem
    ssl.keystore.password ssl.truststore.password
    ssl.ca.location ssl.ca.pem
    ssl.endpoint.identification.algorithm ssl.enabled.protocols
    enable.ssl.certificate.verification
    sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.scope sasl.oauthbearer.method
    sasl.oauthbearer.client.id sasl.oauthbearer.client.secret
    sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret
    """
) | frozenset(("ssl.protocol",))
"""``ssl.protocol`` has no effect, but is part of many configurations; ``sasl.mechanisms`` is
librdkafka's name for ``sasl.mechanism``."""
SECRETS: Final = names(
    """
    sasl.jaas.config sasl.password ssl.key.password ssl.key.pem ssl.keystore.key
    ssl.keystore.password ssl.truststore.password
    sasl.oauthbearer.client.secret sasl.oauthbearer.client.credentials.client.secret
    """
)
"""Values that no message may repeat."""

_MECHANISMS: Final[dict[str, type[Plain | ScramSha256 | ScramSha512]]] = {
    "PLAIN": Plain,
    "SCRAM-SHA-256": ScramSha256,
    "SCRAM-SHA-512": ScramSha512,
}
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_TLS_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def security_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """The options ``security_protocol``, ``sasl`` and ``ssl_context``.

    Raises:
        ValueError: a property is malformed, unsupported or contradicts another, or a file cannot be
            read. The message begins with the property's name.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise ValueError(f"security.protocol={protocol!r}; it is one of {', '.join(_PROTOCOLS)}")
    found: dict[str, Any] = {}
    if protocol.startswith("SASL_"):
        found["sasl"] = _mechanism(properties)
    if protocol.endswith("SSL"):
        try:
            found["ssl_context"] = _context(properties)
        except (OSError, ssl.SSLError) as error:
            raise ValueError(f"ssl.*: the files cannot be used: {error}") from error
    return found


def _mechanism(
    properties: Mapping[str, str],
) -> Plain | ScramSha256 | ScramSha512 | OAuthBearer:
    name = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms", "GSSAPI")
    if name == OAuthBearer.name:
        return _oauth_bearer(properties)
    mechanism = _MECHANISMS.get(name)
    if mechanism is None:
        raise ValueError(
            f"sasl.mechanism={name!r}; it is one of {', '.join(_MECHANISMS)}, OAUTHBEARER"
        )
    jaas = properties.get("sasl.jaas.config", "")
    username = properties.get("sasl.username") or _jaas_value(jaas, "username")
    password = properties.get("sasl.password") or _jaas_value(jaas, "password")
    if not username or password is None:
        raise ValueError(
            f"sasl.mechanism={name!r} needs a user; set sasl.username and sasl.password, or "
            f'sasl.jaas.config to \'...LoginModule required username="..." password="...";\''
        )
    return mechanism(username, password)


def _oauth_bearer(properties: Mapping[str, str]) -> OAuthBearer:
    """A token from a file, from an endpoint, or (for tests) one that nobody has signed."""
    jaas = properties.get("sasl.jaas.config", "")
    url = properties.get("sasl.oauthbearer.token.endpoint.url", "")
    if url.startswith("file:"):
        return OAuthBearer(token_from_file(urllib.request.url2pathname(urlsplit(url).path)))
    user = _jaas_value(jaas, "unsecuredLoginStringClaim_sub")
    if not url and user:
        scope = _jaas_value(jaas, "unsecuredLoginStringClaim_scope")
        claims = {} if scope is None else {"scope": scope}
        return OAuthBearer(lambda: unsecured_token(user, claims=claims))
    prefix = "sasl.oauthbearer.client"
    client_id = (
        properties.get(f"{prefix}.credentials.client.id")
        or properties.get(f"{prefix}.id")
        or _jaas_value(jaas, "clientId")
    )
    secret = (
        properties.get(f"{prefix}.credentials.client.secret")
        or properties.get(f"{prefix}.secret")
        or _jaas_value(jaas, "clientSecret")
    )
    if not (url and client_id and secret):
        raise ValueError(
            "sasl.mechanism='OAUTHBEARER' needs a token; set sasl.oauthbearer.token.endpoint.url, "
            f"{prefix}.credentials.client.id and {prefix}.credentials.client.secret"
        )
    scope = properties.get("sasl.oauthbearer.scope") or _jaas_value(jaas, "scope")
    try:
        return OAuthBearer(ClientCredentials(url, client_id, secret, scope=scope))
    except ValueError as error:
        raise ValueError(f"sasl.oauthbearer.token.endpoint.url: {error}") from None


def _jaas_value(jaas: str, name: str) -> str | None:
    found = re.search(rf"""\b{name}\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;"']+))""", jaas)
    if found is None:
        return None
    quoted = found[1]
    return re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else found[2] or found[3]


def _context(properties: Mapping[str, str]) -> ssl.SSLContext:
    context = _trusting(properties)
    if properties.get("ssl.endpoint.identification.algorithm", "https").lower() in ("", "none"):
        context.check_hostname = False
    if properties.get("enable.ssl.certificate.verification", "true").lower() in ("false", "0"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _set_versions(context, properties.get("ssl.enabled.protocols", ""))
    _load_own_certificate(context, properties)
    return context


def _trusting(properties: Mapping[str, str]) -> ssl.SSLContext:
    file = properties.get("ssl.ca.location") or properties.get("ssl.truststore.location")
    texts = properties.get("ssl.ca.pem") or properties.get("ssl.truststore.certificates")
    if _store_type(properties, "ssl.truststore") == "PKCS12":
        location = properties["ssl.truststore.location"]
        password = properties.get("ssl.truststore.password")
        file, texts = None, read_pkcs12("ssl.truststore", location, password).certificates
        if not texts:
            raise ValueError(f"ssl.truststore.location={location!r} holds no certificate")
    return ssl.create_default_context(cafile=file, cadata=texts)


def _store_type(properties: Mapping[str, str], name: str) -> str:
    location = properties.get(f"{name}.location", "")
    return store_type(name, location, properties.get(f"{name}.type", ""))


def _set_versions(context: ssl.SSLContext, enabled: str) -> None:
    names = [name.strip() for name in enabled.split(",") if name.strip()]
    if names:
        versions = [_TLS_VERSIONS[name] for name in names if name in _TLS_VERSIONS]
        if not versions:
            raise ValueError(
                f"ssl.enabled.protocols={enabled!r}; it is one or more of "
                f"{', '.join(_TLS_VERSIONS)}"
            )
        context.minimum_version = min(versions)
        context.maximum_version = max(versions)


def _load_own_certificate(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    password = properties.get("ssl.key.password")
    location = properties.get("ssl.certificate.location") or properties.get("ssl.keystore.location")
    key_location = properties.get("ssl.key.location")
    chain = properties.get("ssl.certificate.pem") or properties.get(
        "ssl.keystore.certificate.chain"
    )
    key = properties.get("ssl.key.pem") or properties.get("ssl.keystore.key", "")
    if _store_type(properties, "ssl.keystore") == "PKCS12":
        location = properties["ssl.keystore.location"]
        store_password = properties.get("ssl.keystore.password")
        store = read_pkcs12("ssl.keystore", location, store_password)
        if not store.key:
            raise ValueError(f"ssl.keystore.location={location!r} holds no private key")
        _load_texts(context, store.certificates, store.key, store_password)
    elif location:
        context.load_cert_chain(location, key_location, password=password)
    elif chain:
        _load_texts(context, chain, key, password)
    elif key_location or key:
        raise ValueError("ssl.key.*: a key without a certificate; set ssl.certificate.location")


def _load_texts(context: ssl.SSLContext, chain: str, key: str, password: str | None) -> None:
    """Python's TLS reads certificates from files only."""
    handle, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{key}\n{chain}\n")
        context.load_cert_chain(path, password=password)
    finally:
        os.unlink(path)
