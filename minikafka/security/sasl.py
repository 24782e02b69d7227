"""The SASL session of a connection: what it may send, and when it counts as somebody.

A session begins with nothing proved, and only a mechanism's `Granted` makes it a user's. Whatever
is out of order ends it.

============  ===========================  ================================================
state         event                        next state
============  ===========================  ================================================
NEW           ApiVersions, understood      ASKED
NEW           ApiVersions, not understood  NEW: the client asks in another version
NEW, ASKED    SaslHandshake                CHALLENGED, or FAILED without such a mechanism
CHALLENGED    a token                      CHALLENGED by the mechanism's challenge, CHECKING,
                                           AUTHENTICATED, or FAILED
CHECKING      the result of the check      as with a token
AUTHENTICATED SaslHandshake, if sessions   CHALLENGED: a re-authentication (KIP-368), which
              end                          must be by the same mechanism and principal
AUTHENTICATED another request              AUTHENTICATED, or FAILED once the session has ended
any           anything else                FAILED
============  ===========================  ================================================

While it authenticates again, a session is nobody's: other requests end it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import NamedTuple

from ..protocol.errors import ErrorCode
from .mechanisms import Challenge, Check, Denied, Granted, ServerMechanism, Verdict
from .principal import USER, Principal

__all__ = ["Mechanism", "Now", "SaslError", "SaslSession", "SaslState", "TokenAnswer"]


class SaslState(Enum):
    NEW = auto()
    ASKED = auto()
    CHALLENGED = auto()
    CHECKING = auto()
    AUTHENTICATED = auto()
    FAILED = auto()


class Mechanism(NamedTuple):
    """A mechanism that a listener has enabled.

    Attributes:
        new: begins an authentication.
        reauth_ms_max: how long a session lasts at most (``connections.max.reauth.ms``); 0: for
            ever, if the credentials do.
    """

    new: Callable[[], ServerMechanism]
    reauth_ms_max: int = 0


class Now(NamedTuple):
    """The time on both clocks: seconds that only go forward, and milliseconds since 1970."""

    monotonic: float
    wall_ms: int


class TokenAnswer(NamedTuple):
    """What the client is sent for a token; a lifetime of 0 has no end."""

    token: bytes
    session_lifetime_ms: int = 0


class SaslError(Exception):
    """The session has failed.

    Attributes:
        error_code: for the client.
        message: for the client; says nothing about which users there are.
        reason: for the broker's log; has no secret in it.
    """

    def __init__(self, error_code: ErrorCode, message: str, reason: str | None = None) -> None:
        super().__init__(reason or message)
        self.error_code = error_code
        self.message = message


class SaslSession:
    """One connection's session; its methods raise `SaslError` when it fails.

    Args:
        mechanisms: those that are enabled, by name.

    Attributes:
        principal: who it is while the state is AUTHENTICATED; None before that. It stays while the
            session authenticates again, when it counts for nothing.
        mechanism: the name of the one in use.
    """

    def __init__(self, mechanisms: Mapping[str, Mechanism]) -> None:
        self._mechanisms = mechanisms
        self._server: ServerMechanism | None = None
        self._ends_at: float | None = None
        self.state = SaslState.NEW
        self.principal: Principal | None = None
        self.mechanism = ""

    @property
    def is_authenticated(self) -> bool:
        return self.state is SaslState.AUTHENTICATED

    @property
    def may_authenticate_again(self) -> bool:
        """Whether SaslHandshake is taken now: Kafka takes it only if sessions end."""
        return self._ends_at is not None and self.state is SaslState.AUTHENTICATED

    def has_ended(self, now: float) -> bool:
        """Whether the lifetime of an authenticated session is over."""
        return self._ends_at is not None and now > self._ends_at

    # --- events --------------------------------------------------------------------------------

    def asked_versions(self, *, understood: bool) -> None:
        """ApiVersions came."""
        if self.state is not SaslState.NEW:
            raise self.unexpected("API_VERSIONS")
        if understood:
            self.state = SaslState.ASKED

    def handshake(self, mechanism: str) -> None:
        """SaslHandshake came."""
        if self.state is SaslState.AUTHENTICATED and self.may_authenticate_again:
            if mechanism != self.mechanism:
                raise self._failed(
                    ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                    f"SASL mechanism '{mechanism[:100]}' requested by client is not supported for "
                    f"re-authentication of mechanism '{self.mechanism}'",
                )
        elif self.state not in (SaslState.NEW, SaslState.ASKED):
            raise self.unexpected("SASL_HANDSHAKE")
        elif mechanism not in self._mechanisms:
            raise self._failed(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                f"Unsupported SASL mechanism {mechanism[:100]}",
            )
        self.mechanism = mechanism
        self._server = self._mechanisms[mechanism].new()
        self.state = SaslState.CHALLENGED

    def token(self, token: bytes, now: Now) -> TokenAnswer | Check:
        """A token of the client came; a check's result goes to `checked`."""
        if self.state is not SaslState.CHALLENGED or self._server is None:
            raise self.unexpected("SASL_AUTHENTICATE")
        step = self._server.step(token)
        self.state = SaslState.CHECKING
        if isinstance(step, Check):
            return step
        return self.checked(step, now)

    def checked(self, verdict: Verdict, now: Now) -> TokenAnswer:
        """The mechanism has come to a verdict."""
        if self.state is not SaslState.CHECKING:
            raise self.unexpected("result of a check")
        match verdict:
            case Challenge(token):
                self.state = SaslState.CHALLENGED
                return TokenAnswer(token)
            case Denied(reason, message):
                kind = "authentication" if self.principal is None else "re-authentication"
                raise self._failed(
                    ErrorCode.SASL_AUTHENTICATION_FAILED,
                    message
                    or f"Authentication failed during {kind} due to invalid credentials with SASL "
                    f"mechanism {self.mechanism}",
                    reason,
                )
            case Granted():
                return self._granted(verdict, now)

    def _granted(self, granted: Granted, now: Now) -> TokenAnswer:
        principal = Principal(USER, granted.user)
        if self.principal is not None and principal != self.principal:
            raise self._failed(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                f"Cannot change principals during re-authentication from {self.principal.type}."
                f"{self.principal.name}: {principal.type}.{principal.name}",
            )
        lifetimes: list[int] = []
        if granted.expires_at_ms is not None:
            lifetimes.append(max(0, granted.expires_at_ms - now.wall_ms))
        if (longest := self._mechanisms[self.mechanism].reauth_ms_max) > 0:
            lifetimes.append(longest)
        self._server = None
        self._ends_at = now.monotonic + min(lifetimes) / 1000 if lifetimes else None
        self.principal = principal
        self.state = SaslState.AUTHENTICATED
        return TokenAnswer(granted.token, min(lifetimes, default=0))

    # --- failures ------------------------------------------------------------------------------

    def unexpected(self, request: str) -> SaslError:
        """The session ends because this request is out of order; returns the error to raise."""
        is_challenged = self.state in (SaslState.CHALLENGED, SaslState.CHECKING)
        phase = "authentication" if is_challenged else "handshake"
        return self._failed(
            ErrorCode.ILLEGAL_SASL_STATE,
            f"Unexpected Kafka request of type {request} during SASL {phase}.",
        )

    def end(self) -> None:
        """The connection ends, or the session's lifetime is over."""
        self._server = None
        self.state = SaslState.FAILED

    def _failed(self, error_code: ErrorCode, message: str, reason: str | None = None) -> SaslError:
        self.end()
        return SaslError(error_code, message, reason)
