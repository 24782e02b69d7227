"""OAUTHBEARER (RFC 7628, KIP-255): the client shows a token that somebody else gave it.

The server side: the grammar of the client's message, and the rules that a token's claims follow.
How a token's signature is verified is not this module's business.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast

from .mechanisms import Challenge, Check, Denied, Granted, Step, Verdict

__all__ = [
    "OAUTHBEARER",
    "ClaimRules",
    "InvalidTokenError",
    "OAuthBearerServer",
    "check_claims",
    "parse_initial_response",
    "unsecured_claims",
]

OAUTHBEARER: Final = "OAUTHBEARER"

_SEPARATOR: Final = "\x01"
_ACKNOWLEDGED: Final = b"\x01"
"""What a client answers to the error that it was sent."""
_KEY: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
_AUTH: Final = re.compile(r"(\w+) +([-_~+/.a-zA-Z0-9]+=*)")
_ESCAPE: Final = re.compile(r"=(2C|3D)?")
_TOKEN_SIZE_CHARACTERS_MAX: Final = 64 * 1024


class MalformedResponseError(ValueError):
    """A message is not of the mechanism's grammar."""


class InvalidTokenError(Exception):
    """A token is not accepted; the text says why and has no part of the token in it.

    Attributes:
        missing_scope: what the token lacks, if it is valid otherwise.
    """

    def __init__(self, reason: str, missing_scope: str | None = None) -> None:
        super().__init__(reason)
        self.missing_scope = missing_scope


class InitialResponse(NamedTuple):
    """The client's message; ``authorization_id`` is empty if there is none."""

    token: str
    authorization_id: str
    extensions: dict[str, str]


def parse_initial_response(message: bytes) -> InitialResponse:
    r"""Read ``n,[a=AUTHZID],\1auth=Bearer TOKEN\1NAME=VALUE\1...\1\1``.

    Raises:
        MalformedResponseError: it is something else.
    """
    try:
        text = message.decode("ascii")
    except UnicodeDecodeError:
        raise MalformedResponseError("the message is not ASCII") from None
    header, *pairs = text.split(_SEPARATOR)
    if len(pairs) < 3 or pairs[-2:] != ["", ""]:
        raise MalformedResponseError("the message has no end")
    authorization_id = _authorization_id(header)
    values: dict[str, str] = {}
    for pair in pairs[:-2]:
        name, _, value = pair.partition("=")
        if not _KEY.fullmatch(name) or not _VALUE.fullmatch(value) or name in values:
            raise MalformedResponseError("a pair is not NAME=VALUE, or comes twice")
        values[name] = value
    found = _AUTH.fullmatch(values.pop("auth", ""))
    if found is None or found[1].lower() != "bearer":
        raise MalformedResponseError("there is no auth=Bearer TOKEN")
    return InitialResponse(found[2], authorization_id, values)


def _authorization_id(header: str) -> str:
    parts = header.split(",")
    if len(parts) != 3 or parts[0] not in ("n", "y") or parts[2]:
        raise MalformedResponseError("the header is not n,[a=AUTHZID],")
    escaped = parts[1]
    if not escaped:
        return ""
    if not escaped.startswith("a=") or len(escaped) == 2:
        raise MalformedResponseError("the authorization id is malformed")

    def replace(found: re.Match[str]) -> str:
        if found[1] is None:
            raise MalformedResponseError("the authorization id is malformed")
        return "," if found[1] == "2C" else "="

    return _ESCAPE.sub(replace, escaped[2:])


class OAuthBearerServer:
    """One authentication.

    Args:
        validate: who a token speaks of, or `InvalidTokenError`; is called in a worker thread.
    """

    def __init__(self, validate: Callable[[str], Granted]) -> None:
        self._validate = validate
        self._error: str | None = None

    def step(self, token: bytes) -> Step:
        if token == _ACKNOWLEDGED and self._error is not None:
            return Denied(self._error, self._error)
        self._error = None
        try:
            response = parse_initial_response(token)
        except MalformedResponseError as error:
            return Denied(f"OAUTHBEARER: {error}")
        return Check(lambda: self._check(response))

    def _check(self, response: InitialResponse) -> Verdict:
        try:
            granted = self._validate(response.token)
        except InvalidTokenError as error:
            self._error = _error_of(error)
            return Challenge(self._error.encode())
        if response.authorization_id not in ("", granted.user):
            message = (
                "Authentication failed: Client requested an authorization id that is different "
                "from the token's principal name"
            )
            return Denied(message, message)
        return granted


def _error_of(error: InvalidTokenError) -> str:
    """The answer that RFC 7628 calls for, as Kafka words it."""
    if error.missing_scope is None:
        return '{"status":"invalid_token"}'
    return f'{{"status":"insufficient_scope", "scope":{json.dumps(error.missing_scope)}}}'


# --- claims ------------------------------------------------------------------------------------


class ClaimRules(NamedTuple):
    """What a token has to say.

    Attributes:
        subject_claim: the claim that is the principal's name.
        scope_claim: the claim that has the scopes, as a list or as one text with blanks between.
        required_scopes: all of them must be there.
        clock_skew_ms: how far the clocks may be apart.
        needs_issue_time: ``iat`` must be there.
        audiences: one of them must be in ``aud``; none for any audience.
        issuer: must be ``iss``; empty for any.
    """

    subject_claim: str = "sub"
    scope_claim: str = "scope"
    required_scopes: tuple[str, ...] = ()
    clock_skew_ms: int = 0
    needs_issue_time: bool = False
    audiences: tuple[str, ...] = ()
    issuer: str = ""


def check_claims(claims: Mapping[str, Any], rules: ClaimRules, now_ms: int) -> Granted:
    """Who a token speaks of, whose signature counts.

    Raises:
        InvalidTokenError: a claim is missing, has another type, or does not hold at this time.
    """
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise InvalidTokenError(f"the claim {rules.subject_claim!r} is no name")
    expires_at_ms = _time_ms(claims, "exp")
    if expires_at_ms is None:
        raise InvalidTokenError("the claim 'exp' is missing")
    issued_at_ms = _time_ms(claims, "iat")
    if issued_at_ms is None and rules.needs_issue_time:
        raise InvalidTokenError("the claim 'iat' is missing")
    not_before_ms = _time_ms(claims, "nbf")
    if now_ms - rules.clock_skew_ms >= expires_at_ms:
        raise InvalidTokenError("the token has expired")
    for begins_at_ms in (issued_at_ms, not_before_ms):
        if begins_at_ms is not None and begins_at_ms > now_ms + rules.clock_skew_ms:
            raise InvalidTokenError("the token is not valid yet")
    if issued_at_ms is not None and expires_at_ms <= issued_at_ms:
        raise InvalidTokenError("the token expires before it was issued")
    _check_origin(claims, rules)
    scopes = _scopes(claims.get(rules.scope_claim))
    missing = [one for one in rules.required_scopes if one not in scopes]
    if missing:
        needed = " ".join(rules.required_scopes)
        raise InvalidTokenError(f"the scope {missing[0]!r} is missing", needed)
    return Granted(subject.strip(), expires_at_ms=expires_at_ms)


def _check_origin(claims: Mapping[str, Any], rules: ClaimRules) -> None:
    audience = claims.get("aud")
    audiences = cast("list[object]", audience) if isinstance(audience, list) else [audience]
    if rules.audiences and not any(one in rules.audiences for one in audiences):
        raise InvalidTokenError("the token is for another audience")
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise InvalidTokenError("the token is from another issuer")


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise InvalidTokenError(f"the claim {name!r} is no time")
    return int(value * 1000)


def _scopes(value: object) -> list[str]:
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list):
        members = cast("list[object]", value)
        return [one.strip() for one in members if isinstance(one, str)]
    return []


def unsecured_claims(token: str) -> dict[str, Any]:
    """The claims of a token without a signature (``alg`` is ``none``); for tests only.

    Raises:
        InvalidTokenError: it is no such token.
    """
    parts = token.split(".")
    if len(token) > _TOKEN_SIZE_CHARACTERS_MAX or len(parts) != 3 or parts[2]:
        raise InvalidTokenError("it is not a token without a signature")
    if _object(parts[0]).get("alg") != "none":
        raise InvalidTokenError("the algorithm is not 'none'")
    return _object(parts[1])


def _object(part: str) -> dict[str, Any]:
    try:
        found = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidTokenError("a part of the token is no JSON object")
    return cast("dict[str, Any]", found)
