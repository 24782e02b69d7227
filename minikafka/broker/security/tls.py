"""TLS of a listener: from Kafka's ``ssl.*`` settings to an `ssl.SSLContext`, and to principals.

Whatever is missing or contradictory refuses the start (`InvalidSettingError`); nothing falls back
to something weaker. Files are read again when they change: connections that exist stay as they are,
new ones get the new certificate. Files that cannot be used while the broker runs are reported, and
the old ones stay in force.
"""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from ...metadata.setting_table import BrokerConfig, listener_prefix
from ...metadata.settings import InvalidSettingError, Password, Value
from ...security.distinguished_name import MalformedCertificateError, subject_of
from ...security.mapping_rules import MappingRules, NoRuleMatchesError
from ...security.principal import ANONYMOUS, USER, Principal
from ...security.protocols import SecurityProtocol
from ..settings.listeners import Listener
from .key_material import KeyMaterial, KeyStoreSettings, from_pem, read_store

__all__ = ["TlsError", "TlsFiles", "TlsIdentity", "TlsOfListener", "build_context"]

logger = logging.getLogger(__name__)

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_SUITES_OF_1_3: Final = frozenset(
    ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
)
_MODES: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class TlsError(Exception):
    """A client's certificate names nobody."""


class TlsIdentity(NamedTuple):
    """What one side of TLS connections needs, read and checked.

    Attributes:
        own: its private key and chain.
        trusted: certificates in PEM that others' must be signed by; empty for none.
        client_auth: ``none``, ``requested`` or ``required``.
        versions: of TLS.
        suites: standard names of cipher suites; empty for OpenSSL's safe ones.
    """

    own: KeyMaterial
    trusted: str
    client_auth: str
    versions: Sequence[str]
    suites: Sequence[str]


def build_context(identity: TlsIdentity, where: str, *, is_client: bool = False) -> ssl.SSLContext:
    """A context for connections, of the side that accepts them or of the other.

    Args:
        identity: keys, certificates and rules.
        where: how messages begin, as in ``listener SSL``.
        is_client: for the side that connects: it always checks the other's certificate, but no
            host name.

    Raises:
        InvalidSettingError: OpenSSL does not accept something.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT if is_client else ssl.PROTOCOL_TLS_SERVER)
    context.check_hostname = False
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    versions = sorted(_VERSIONS[one] for one in identity.versions)
    if not versions:
        raise InvalidSettingError(f"{where}: ssl.enabled.protocols is empty; use TLSv1.2,TLSv1.3")
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    if identity.suites:
        _choose_suites(context, identity.suites, where)
    _load_own(context, identity.own, where)
    context.verify_mode = ssl.CERT_REQUIRED if is_client else _MODES[identity.client_auth]
    if identity.trusted:
        try:
            context.load_verify_locations(cadata=identity.trusted)
        except (ssl.SSLError, ValueError) as error:
            raise InvalidSettingError(f"{where}: the truststore: {_reason(error)}") from None
    return context


def _load_own(context: ssl.SSLContext, own: KeyMaterial, where: str) -> None:
    def password() -> str:
        if not own.password:  # without this OpenSSL would ask at the terminal
            raise InvalidSettingError(
                f"{where}: the private key is encrypted; set ssl.key.password"
            )
        return own.password.reveal()

    with _passing_file(own.private_key + "\n" + own.certificates) as path:
        try:
            context.load_cert_chain(path, password=password)
        except (ssl.SSLError, ValueError, OSError) as error:
            if isinstance(error, InvalidSettingError):
                raise
            hint = "; is ssl.key.password right?" if own.password else ""
            raise InvalidSettingError(
                f"{where}: the private key and its certificate: {_reason(error)}{hint}"
            ) from None


@contextmanager
def _passing_file(content: str) -> Generator[str]:
    """A file that nobody else can open: OpenSSL reads keys only from files."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("minikafka", os.MFD_CLOEXEC)
        path = f"/proc/self/fd/{descriptor}"
    else:
        descriptor, path = tempfile.mkstemp()  # with mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="ascii", errors="replace") as file:
            file.write(content)
            file.flush()
            yield path
    finally:
        if not path.startswith("/proc/"):
            with suppress(OSError):
                os.remove(path)


def _choose_suites(context: ssl.SSLContext, suites: Sequence[str], where: str) -> None:
    modern = _SUITES_OF_1_3.intersection(suites)
    others = [one for one in suites if one not in modern]
    speaks_modern = context.maximum_version == ssl.TLSVersion.TLSv1_3
    if modern and modern != _SUITES_OF_1_3 and speaks_modern:
        raise InvalidSettingError(
            f"{where}: ssl.cipher.suites names only {', '.join(sorted(modern))} of TLSv1.3, and "
            f"Python always offers all three; name {', '.join(sorted(_SUITES_OF_1_3))}, or set "
            "ssl.enabled.protocols=TLSv1.2"
        )
    if not modern:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if not others:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if context.minimum_version > context.maximum_version:
        raise InvalidSettingError(
            f"{where}: ssl.cipher.suites has none for ssl.enabled.protocols; add one, or allow "
            "another version"
        )
    if not others:
        return
    for suite in others:
        try:
            context.set_ciphers(_openssl_name(suite))
        except ssl.SSLError:
            raise InvalidSettingError(
                f"{where}: ssl.cipher.suites: OpenSSL here does not know {suite!r}"
            ) from None
    context.set_ciphers(":".join(map(_openssl_name, others)))


def _openssl_name(suite: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 as ECDHE-RSA-AES128-GCM-SHA256."""
    exchange, separator, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not separator:
        return suite
    cipher = cipher.replace("AES_", "AES").replace("_CBC_", "_").replace("_", "-")
    cipher = cipher.replace("CHACHA20-POLY1305-SHA256", "CHACHA20-POLY1305")
    return cipher if exchange == "RSA" else f"{exchange.replace('_', '-')}-{cipher}"


def _reason(error: Exception) -> str:
    reason: str | None = getattr(error, "reason", None)
    return (reason or str(error)).replace("_", " ").lower()


class TlsFiles:
    """Keys and certificates as one set of ``ssl.*`` settings names them.

    Args:
        value_of: finds a setting by its name without prefixes.
        where: how messages begin, as in ``listener SSL``.
    """

    def __init__(self, value_of: Callable[[str], Value], where: str) -> None:
        self._value_of = value_of
        self._where = where
        self._files = [
            path
            for path in map(self._text, ("ssl.keystore.location", "ssl.truststore.location"))
            if path
        ]
        self._seen = self._state_of_files()

    def _text(self, name: str) -> str:
        return str(self._value_of(name))

    def _password(self, name: str) -> Password:
        value = self._value_of(name)
        assert isinstance(value, Password)
        return value

    def _names(self, name: str) -> Sequence[str]:
        value = self._value_of(name)
        assert isinstance(value, tuple)
        return value

    def identity(self, client_auth: str) -> TlsIdentity:
        """Read everything.

        Raises:
            InvalidSettingError: something is missing or cannot be used.
        """
        trusted = self.trusted()
        if client_auth != "none" and not trusted:
            raise InvalidSettingError(
                f"{self._where}: certificates are asked for (ssl.client.auth={client_auth}), but "
                "nothing says which are trusted; set ssl.truststore.location or "
                "ssl.truststore.certificates"
            )
        return TlsIdentity(
            self._own(),
            trusted,
            client_auth,
            self._names("ssl.enabled.protocols"),
            self._names("ssl.cipher.suites"),
        )

    def _own(self) -> KeyMaterial:
        key_password = self._password("ssl.key.password")
        location = self._text("ssl.keystore.location")
        key = self._password("ssl.keystore.key")
        chain = self._password("ssl.keystore.certificate.chain")
        if location and (key or chain):
            raise InvalidSettingError(
                f"{self._where}: ssl.keystore.location and ssl.keystore.key or "
                "ssl.keystore.certificate.chain exclude each other"
            )
        if location:
            found = read_store(self._store("ssl.keystore", key_password, is_private=True))
        elif key and chain:
            found = from_pem(f"{key.reveal()}\n{chain.reveal()}", key_password)
        else:
            missing = "ssl.keystore.location (or ssl.keystore.key and ...certificate.chain)"
            if key or chain:
                missing = "ssl.keystore." + ("certificate.chain" if key else "key")
            raise InvalidSettingError(
                f"{self._where} speaks TLS, which needs a private key and a certificate; set "
                f"{missing}"
            )
        for part, name in ((found.private_key, "private key"), (found.certificates, "certificate")):
            if not part:
                raise InvalidSettingError(
                    f"{self._where}: there is no {name} in {location or 'ssl.keystore.*'}; a PEM "
                    "keystore has the private key and the certificate chain in one file"
                )
        return found

    def trusted(self) -> str:
        """The trusted certificates in PEM; empty if the settings name none.

        Raises:
            InvalidSettingError: they cannot be used.
        """
        location = self._text("ssl.truststore.location")
        given = self._password("ssl.truststore.certificates")
        if location and given:
            raise InvalidSettingError(
                f"{self._where}: ssl.truststore.location and ssl.truststore.certificates exclude "
                "each other"
            )
        if not (location or given):
            return ""
        if given:
            found = from_pem(given.reveal(), Password()).certificates
        else:
            store = self._store("ssl.truststore", Password(), is_private=False)
            found = read_store(store).certificates
        if not found:
            raise InvalidSettingError(
                f"{self._where}: there is no certificate in {location or 'ssl.truststore.*'}"
            )
        return found

    def _store(self, name: str, key_password: Password, *, is_private: bool) -> KeyStoreSettings:
        return KeyStoreSettings(
            name,
            self._text(f"{name}.type"),
            self._text(f"{name}.location"),
            self._password(f"{name}.password"),
            key_password,
            is_private,
        )

    def _state_of_files(self) -> list[Any]:
        found: list[Any] = []
        for path in self._files:
            try:
                state = os.stat(path)
                found.append((state.st_ino, state.st_mtime_ns, state.st_size, state.st_mode))
            except OSError as error:
                found.append(error.errno)
        return found

    def change(self, build: Callable[[], None]) -> Callable[[], None] | None:
        """What to call, in a thread, if files have changed since the last time; else None."""
        state = self._state_of_files()
        if state == self._seen:
            return None
        self._seen = state

        def reload() -> None:
            try:
                build()
            except InvalidSettingError as error:
                logger.error("keeping the certificate of before: %s", error)
            else:
                logger.info("%s: read its key and certificates again", self._where)

        return reload


class TlsOfListener:
    """TLS as the settings of one listener describe it.

    Attributes:
        context: for the next connection.
        files: what it is made of.
        listener: whose it is.

    Raises:
        InvalidSettingError: the settings are incomplete, or what they name cannot be used.
    """

    def __init__(self, config: BrokerConfig, listener: Listener) -> None:
        self.listener = listener
        self._config = config
        self._where = f"listener {listener.name}"
        self.files = TlsFiles(self._value_of, self._where)
        try:
            self._rules = MappingRules(str(self._value_of("ssl.principal.mapping.rules")))
        except ValueError as error:
            raise InvalidSettingError(f"{self._where}: {error}") from None
        self.context: ssl.SSLContext
        self.build()

    def _value_of(self, name: str) -> Value:
        return self._config.value_for(self.listener.name, name)

    @property
    def accepts_certificates(self) -> bool:
        """Whether clients are asked for certificates."""
        return self._client_auth() != "none"

    def _client_auth(self) -> str:
        name = "ssl.client.auth"
        if self.listener.protocol is SecurityProtocol.SASL_SSL:
            # The setting for all listeners is for those whose clients have nothing else (KIP-684).
            own = f"{listener_prefix(self.listener.name)}{name}"
            return str(self._config.listener_settings.get(own, "none"))
        return str(self._value_of(name))

    def build(self) -> None:
        """Read everything.

        Raises:
            InvalidSettingError: something is missing or cannot be used.
        """
        self.context = build_context(self.files.identity(self._client_auth()), self._where)

    def change(self) -> Callable[[], None] | None:
        """What to call, in a thread, if files have changed since the last time; else None."""
        return self.files.change(self.build)

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Who a client is by the certificate that it showed.

        Raises:
            TlsError: no mapping rule applies to its name.
        """
        if certificate is None or self.listener.protocol.is_sasl:
            return ANONYMOUS
        try:
            return Principal(USER, self._rules.name_of(subject_of(certificate)))
        except (NoRuleMatchesError, MalformedCertificateError) as error:
            raise TlsError(str(error)) from None
