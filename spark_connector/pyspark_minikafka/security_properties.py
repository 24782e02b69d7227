"""Kafka's security properties, as our client takes them: TLS contexts and SASL mechanisms.

Certificates are PEM files or PEM texts, as Kafka takes them since KIP-651; Java's own key stores
cannot be read here.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Mapping
from typing import Any, Final

from minikafka_client.sasl import Plain, ScramSha256, ScramSha512

from .errors import OptionError

SECURITY_PROPERTIES: Final = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "sasl.username",
    "sasl.password",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.key.password",
    "ssl.ca.location",
    "ssl.endpoint.identification.algorithm",
    "ssl.protocol",
    "ssl.enabled.protocols",
    "ssl.truststore.password",
    "ssl.keystore.password",
)
"""Those that are understood; passwords of stores are of no use for PEM."""

_MECHANISMS: Final[dict[str, type[Plain | ScramSha256 | ScramSha512]]] = {
    "PLAIN": Plain,
    "SCRAM-SHA-256": ScramSha256,
    "SCRAM-SHA-512": ScramSha512,
}
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def security_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """What `minikafka_client.options.ConnectionConfig` calls security.

    Raises:
        OptionError: a property is contradictory, or a file cannot be read.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise OptionError(
            f"kafka.security.protocol={protocol!r}; it is one of {', '.join(_PROTOCOLS)}"
        )
    found: dict[str, Any] = {}
    if protocol.startswith("SASL_"):
        found["sasl"] = _mechanism(properties)
    if protocol.endswith("SSL"):
        try:
            found["ssl_context"] = _context(properties)
        except (OSError, ssl.SSLError) as error:
            raise OptionError(f"the kafka.ssl.* files cannot be used: {error}") from error
    return found


def _mechanism(properties: Mapping[str, str]) -> Plain | ScramSha256 | ScramSha512:
    name = properties.get("sasl.mechanism", "GSSAPI")
    mechanism = _MECHANISMS.get(name)
    if mechanism is None:
        raise OptionError(
            f"kafka.sasl.mechanism={name!r}; this connector has {', '.join(_MECHANISMS)}"
        )
    jaas = properties.get("sasl.jaas.config", "")
    username = properties.get("sasl.username") or _of_jaas(jaas, "username")
    password = properties.get("sasl.password") or _of_jaas(jaas, "password")
    if not username or password is None:
        raise OptionError(
            f"{name} needs a user; set kafka.sasl.jaas.config to '...LoginModule required "
            f'username="..." password="...";\', or kafka.sasl.username and kafka.sasl.password'
        )
    return mechanism(username, password)


def _of_jaas(jaas: str, name: str) -> str | None:
    found = re.search(rf"""\b{name}\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;"']+))""", jaas)
    if found is None:
        return None
    quoted = found[1]
    return re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else found[2] or found[3]


def _context(properties: Mapping[str, str]) -> ssl.SSLContext:
    for store in ("truststore", "keystore"):
        type_ = properties.get(f"ssl.{store}.type", "PEM").upper()
        if type_ != "PEM":
            raise OptionError(
                f"kafka.ssl.{store}.type={type_!r}; only PEM can be read, so export the store "
                f"with keytool or openssl"
            )
    context = ssl.create_default_context(
        cafile=properties.get("ssl.ca.location") or properties.get("ssl.truststore.location"),
        cadata=properties.get("ssl.truststore.certificates"),
    )
    if properties.get("ssl.endpoint.identification.algorithm", "https").lower() in ("", "none"):
        context.check_hostname = False
    password = properties.get("ssl.key.password")
    location = properties.get("ssl.keystore.location")
    chain = properties.get("ssl.keystore.certificate.chain")
    if location:
        context.load_cert_chain(location, password=password)
    elif chain:
        _load_texts(context, chain, properties.get("ssl.keystore.key", ""), password)
    return context


def _load_texts(context: ssl.SSLContext, chain: str, key: str, password: str | None) -> None:
    """Python's TLS reads certificates from files only."""
    handle, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{key}\n{chain}\n")
        context.load_cert_chain(path, password=password)
    finally:
        os.unlink(path)
