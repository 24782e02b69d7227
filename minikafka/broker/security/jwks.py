"""The keys that sign OAUTHBEARER tokens: read from a file or an address, and read again.

They are read when the broker starts, which fails without them, whenever they are older than
``sasl.oauthbearer.jwks.endpoint.refresh.ms``, and when a token names a key that is not among them:
issuers change their keys, and announce the new ones here first. Reading takes place in a thread of
its own. Meanwhile tokens are judged by the keys that are there; if that fails, the client comes
back.
"""

from __future__ import annotations

import json
import logging
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import IO, Any, Final, NamedTuple, cast

import jwt

from ...metadata.settings import InvalidSettingError
from ...security.oauthbearer import InvalidTokenError

__all__ = ["JwksSettings", "KeySet"]

logger = logging.getLogger(__name__)

_SIZE_BYTES_MAX: Final = 1 << 20
_KEYS_MAX: Final = 100
_TOKEN_CHARACTERS_MAX: Final = 64 * 1024
_TIMEOUT_SECONDS: Final = 10.0
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
# Whoever can verify a symmetric signature can make it, so these are public keys only.
_ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
_KEY_TYPES: Final = ("RSA", "EC", "OKP")
_OPTIONS: Final = {
    f"verify_{name}": False for name in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")
}
"""`minikafka.security.oauthbearer` checks the claims."""


class JwksSettings(NamedTuple):
    """Where the keys are, and when they are read again; times in seconds.

    Attributes:
        url: ``file:`` or ``https:``; ``http:`` on this machine only.
        refresh_s: how old they may become.
        retry_s: the first pause after a look that found nothing; it doubles each time.
        retry_s_max: the longest pause.
    """

    url: str
    refresh_s: float = 3600.0
    retry_s: float = 0.1
    retry_s_max: float = 10.0


class KeySet:
    """Verifies signatures; may be used from several threads.

    Args:
        settings: see there.
        monotonic: seconds that only go forward; called from any thread.

    Raises:
        InvalidSettingError: the keys cannot be read.
    """

    def __init__(self, settings: JwksSettings, monotonic: Callable[[], float]) -> None:
        self._settings = settings
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._reading: threading.Thread | None = None
        self._pause_s = settings.retry_s
        try:
            self._keys = _read(settings.url)
        except _UnreadableError as error:
            raise InvalidSettingError(f"sasl.oauthbearer.jwks.endpoint.url: {error}") from None
        self._read_at = monotonic()
        self._looked_at = self._read_at

    def claims(self, token: str) -> dict[str, Any]:
        """The claims of a token with a valid signature.

        Raises:
            InvalidTokenError: the signature is missing or wrong, or its key is unknown.
        """
        if len(token) > _TOKEN_CHARACTERS_MAX:
            raise InvalidTokenError("the token is too long")
        try:
            key_id = jwt.get_unverified_header(token).get("kid")
        except jwt.PyJWTError:
            raise InvalidTokenError("it is no signed token") from None
        candidates = [key for key in self._keys if key_id is None or key.key_id == key_id]
        if self._monotonic() - self._read_at > self._settings.refresh_s or not candidates:
            self._look_again()
        for key in candidates:
            try:
                found: dict[str, Any] = jwt.decode(
                    token, key, algorithms=_ALGORITHMS, options=cast("Any", _OPTIONS)
                )
            except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
                continue
            return found
        raise InvalidTokenError("the signature is not by a known key")

    def _look_again(self) -> None:
        """Read the keys in a thread, unless that was tried a moment ago."""
        with self._lock:
            now = self._monotonic()
            is_reading = self._reading is not None and self._reading.is_alive()
            if is_reading or now - self._looked_at < self._pause_s:
                return
            self._looked_at = now
            self._pause_s = min(2 * self._pause_s, self._settings.retry_s_max)
            self._reading = threading.Thread(target=self._refresh, name="jwks", daemon=True)
            self._reading.start()

    def _refresh(self) -> None:
        try:
            keys = _read(self._settings.url)
        except _UnreadableError as error:
            logger.warning("cannot read the keys of OAUTHBEARER tokens again: %s", error)
            return
        known = {key.key_id for key in self._keys}
        if any(key.key_id not in known for key in keys):
            self._pause_s = self._settings.retry_s
        self._keys, self._read_at = keys, self._monotonic()

    def wait(self) -> None:
        """Wait until keys that are being read have been read."""
        reading = self._reading
        if reading is not None:
            reading.join()


class _UnreadableError(Exception):
    """The keys cannot be read; the text says why."""


def _read(url: str) -> list[jwt.PyJWK]:
    parts = urllib.parse.urlsplit(url)
    is_local = parts.scheme == "http" and parts.hostname in _LOOPBACK
    if parts.scheme not in ("file", "https") and not is_local:
        raise _UnreadableError(
            f"{parts.scheme or 'no scheme'}: it is file: or https:, because whoever can change "
            "the keys on their way here can make tokens"
        )
    try:
        with _OPENER.open(url, timeout=_TIMEOUT_SECONDS) as answer:
            content = answer.read(_SIZE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise _UnreadableError(str(error)) from None
    if len(content) > _SIZE_BYTES_MAX:
        raise _UnreadableError(f"it has more than {_SIZE_BYTES_MAX} bytes")
    try:
        members = json.loads(content)["keys"]
        keys = [_key(one) for one in members[:_KEYS_MAX] if _is_usable(one)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, jwt.PyJWTError):
        raise _UnreadableError("it is no JSON Web Key Set (RFC 7517)") from None
    if not keys:
        raise _UnreadableError("there is no public key for signatures in it")
    return keys


def _is_usable(member: dict[str, Any]) -> bool:
    return member.get("kty") in _KEY_TYPES and member.get("use", "sig") == "sig"


def _key(member: dict[str, Any]) -> jwt.PyJWK:
    return jwt.PyJWK.from_dict(member)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirection may lead to where nothing is encrypted."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Any,
        newurl: str,
    ) -> None:
        del msg, newurl
        raise urllib.error.HTTPError(req.full_url, code, "it redirects elsewhere", headers, fp)


_OPENER: Final = urllib.request.build_opener(_NoRedirects)
