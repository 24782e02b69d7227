"""The SASL mechanisms of each listener: what its settings say, checked when the broker starts."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

import trio

from ...metadata.image import MetadataImage
from ...metadata.setting_table import BrokerConfig
from ...metadata.settings import InvalidSettingError
from ...security.jaas import JaasModule, MalformedJaasError, parse_jaas
from ...security.mechanisms import ServerMechanism
from ...security.oauthbearer import OAUTHBEARER, OAuthBearerServer
from ...security.plain import PLAIN, PlainServer
from ...security.sasl import Mechanism
from ...security.scram import ScramMechanism, ScramServer
from ..settings.listeners import Listener
from ..system.clock import Clock
from .listener_settings import ListenerSettings
from .tokens import token_validator

__all__ = ["ListenerSasl", "SaslService"]

SERVED: Final = (PLAIN, *(one.title for one in ScramMechanism), OAUTHBEARER)
_NONCE_SIZE_BYTES: Final = 24
_USER: Final = "user_"
_CHECKS_AT_ONCE: Final = 2
"""They compute for milliseconds, in threads, for anybody who asks."""


class ListenerSasl(NamedTuple):
    """How clients of one listener log in.

    Attributes:
        mechanisms: by name, in the order of the setting.
        size_bytes_max: of a request before a client has logged in.
        timeout_s: how long that may take.
        failure_delay_s: how long a client that failed waits for the answer.
        checks: how many passwords and signatures may be checked at once; shared by all listeners.
    """

    mechanisms: Mapping[str, Mechanism]
    size_bytes_max: int
    timeout_s: float
    failure_delay_s: float
    checks: trio.Semaphore


class MetadataView(Protocol):
    """Access to the metadata image as of the last applied decision."""

    @property
    def image(self) -> MetadataImage: ...


class SaslService:
    """Knows the mechanisms of all listeners.

    Args:
        config: the settings.
        metadata: has the SCRAM credentials.
        clock: says when tokens expire.
    """

    def __init__(self, config: BrokerConfig, metadata: MetadataView, clock: Clock) -> None:
        self._config = config
        self._metadata = metadata
        self._clock = clock
        self._listeners: dict[str, ListenerSasl] = {}
        self._checks = trio.Semaphore(_CHECKS_AT_ONCE)

    def of_listener(self, listener: Listener) -> ListenerSasl:
        """How clients of a SASL listener log in.

        Raises:
            InvalidSettingError: its settings are incomplete.
        """
        found = self._listeners.get(listener.name)
        if found is None:
            found = self._listeners[listener.name] = self._read(listener)
        return found

    def _read(self, listener: Listener) -> ListenerSasl:
        settings = ListenerSettings(self._config, listener.name)
        names = settings.names("sasl.enabled.mechanisms")
        unknown = [name for name in names if name not in SERVED]
        if unknown or not names:
            raise InvalidSettingError(
                f"sasl.enabled.mechanisms={','.join(names)}: listener {listener.name} "
                f"({listener.protocol.value}) needs one or more of {', '.join(SERVED)}"
            )
        return ListenerSasl(
            {name: self._mechanism(name, settings) for name in names},
            settings.number("sasl.server.max.receive.size"),
            settings.number("minikafka.login.timeout.ms") / 1000,
            settings.number("connection.failed.authentication.delay.ms") / 1000,
            self._checks,
        )

    def _mechanism(self, name: str, settings: ListenerSettings) -> Mechanism:
        reauth_ms_max = settings.number("connections.max.reauth.ms", name)
        new: Callable[[], ServerMechanism]
        scram = ScramMechanism.named(name)
        if scram is not None:
            _module(name, settings, "ScramLoginModule")
            new = partial(self._new_scram, scram)
        elif name == PLAIN:
            module = _module(name, settings, "PlainLoginModule")
            new = partial(self._new_plain, _users(module))
        else:
            module = _module(name, settings, "OAuthBearerLoginModule")
            options = {} if module is None else module.options
            validate = token_validator(settings, options, self._clock)
            new = partial(OAuthBearerServer, validate)
        return Mechanism(new, reauth_ms_max)

    def _new_scram(self, mechanism: ScramMechanism) -> ServerMechanism:
        credentials = self._metadata.image.scram_credentials
        find = partial(credentials.find, mechanism)
        return ScramServer(mechanism, find, partial(secrets.token_urlsafe, _NONCE_SIZE_BYTES))

    def _new_plain(self, users: Mapping[str, str]) -> ServerMechanism:
        credentials = self._metadata.image.scram_credentials
        return PlainServer(users, credentials.find_any if len(credentials) else None)


def _module(mechanism: str, settings: ListenerSettings, expected: str) -> JaasModule | None:
    text = settings.secret("sasl.jaas.config", mechanism)
    if not text:
        return None
    where = f"{mechanism.lower()}.sasl.jaas.config of listener {settings.listener}"
    try:
        module = parse_jaas(text)
    except MalformedJaasError as error:
        raise InvalidSettingError(f"{where} is malformed: {error}") from None
    if module.name != expected:
        raise InvalidSettingError(f"{where} must have the class {expected}, for {mechanism}")
    return module


def _users(module: JaasModule | None) -> dict[str, str]:
    if module is None:
        return {}
    return {
        name.removeprefix(_USER): password
        for name, password in module.options.items()
        if name.startswith(_USER) and name != _USER and password
    }
