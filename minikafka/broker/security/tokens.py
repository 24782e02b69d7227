"""Who an OAUTHBEARER token speaks of: the validators that a listener's settings choose."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from ...metadata.settings import InvalidSettingError
from ...security.mechanisms import Granted
from ...security.oauthbearer import OAUTHBEARER, ClaimRules, check_claims, unsecured_claims
from ..system.clock import Clock
from .listener_settings import ListenerSettings

__all__ = ["token_validator"]

_SECURED: Final = "OAuthBearerValidatorCallbackHandler"
_UNSECURED: Final = "OAuthBearerUnsecuredValidatorCallbackHandler"
_OPTION: Final = "unsecuredValidator"

Validator = Callable[[str], Granted]


def token_validator(
    settings: ListenerSettings, options: Mapping[str, str], clock: Clock
) -> Validator:
    """The function that validates tokens.

    Args:
        settings: of the listener.
        options: of the JAAS configuration.
        clock: says when tokens expire.

    Raises:
        InvalidSettingError: the settings do not say how, or the keys cannot be read.
    """
    handler = settings.text("sasl.server.callback.handler.class", OAUTHBEARER)
    if handler.rpartition(".")[2] == _UNSECURED:
        return _unsecured(options, clock)
    if handler and handler.rpartition(".")[2] != _SECURED:
        raise InvalidSettingError(
            f"sasl.server.callback.handler.class={handler[:100]}: for OAUTHBEARER it is empty, "
            f"{_SECURED} or {_UNSECURED}"
        )
    return _signed(settings, clock)


def _signed(settings: ListenerSettings, clock: Clock) -> Validator:
    """Believe tokens that are signed by a key that is in the set."""
    url = settings.text("sasl.oauthbearer.jwks.endpoint.url")
    if not url:
        raise InvalidSettingError(
            f"listener {settings.listener}: OAUTHBEARER needs the keys that sign tokens; set "
            "sasl.oauthbearer.jwks.endpoint.url"
        )
    try:
        from .jwks import JwksSettings, KeySet  # the library is an extra
    except ImportError:
        raise InvalidSettingError(
            "OAUTHBEARER needs a library; install it with pip install minikafka[oauth]"
        ) from None
    prefix = "sasl.oauthbearer.jwks.endpoint"
    keys = KeySet(
        JwksSettings(
            url,
            settings.number(f"{prefix}.refresh.ms") / 1000,
            settings.number(f"{prefix}.retry.backoff.ms") / 1000,
            settings.number(f"{prefix}.retry.backoff.max.ms") / 1000,
        ),
        time.monotonic,  # trio's clock is not there yet, and not in threads
    )
    rules = ClaimRules(
        subject_claim=settings.text("sasl.oauthbearer.sub.claim.name"),
        scope_claim=settings.text("sasl.oauthbearer.scope.claim.name"),
        clock_skew_ms=settings.number("sasl.oauthbearer.clock.skew.seconds") * 1000,
        needs_issue_time=True,
        audiences=settings.names("sasl.oauthbearer.expected.audience"),
        issuer=settings.text("sasl.oauthbearer.expected.issuer"),
    )
    return lambda token: check_claims(keys.claims(token), rules, clock.wall_ms())


def _unsecured(options: Mapping[str, str], clock: Clock) -> Validator:
    """Believe every token, as Kafka does by default; for tests."""
    skew = options.get(f"{_OPTION}AllowableClockSkewMs") or "0"
    if not (skew.isascii() and skew.isdigit()):
        raise InvalidSettingError(f"{_OPTION}AllowableClockSkewMs={skew!r} is not a number")
    rules = ClaimRules(
        subject_claim=options.get(f"{_OPTION}PrincipalClaimName") or "sub",
        scope_claim=options.get(f"{_OPTION}ScopeClaimName") or "scope",
        required_scopes=tuple((options.get(f"{_OPTION}RequiredScope") or "").split()),
        clock_skew_ms=int(skew),
    )
    return lambda token: check_claims(unsecured_claims(token), rules, clock.wall_ms())
