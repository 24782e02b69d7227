"""OAUTHBEARER (RFC 7628, KIP-255): the client shows a token that somebody else gave it.

    tokens = ClientCredentials("https://login.example.com/oauth2/token", "me", "my secret")
    Producer("broker:9093", ssl_context=ssl.create_default_context(), sasl=OAuthBearer(tokens))

Where tokens come from is a function without arguments that returns one, as text or as an
`AccessToken`; it is called in a worker thread and may block.
"""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, cast

from minikafka_client.errors import AuthenticationError
from minikafka_client.options import Conversation

__all__ = ["AccessToken", "ClientCredentials", "OAuthBearer", "token_from_file", "unsecured_token"]

_TIMEOUT_S: Final = 10.0
_SIZE_BYTES_MAX: Final = 1 << 20
_USED_SHARE: Final = 0.8
"""How much of a token's lifetime may be over before another one is fetched, as in Kafka."""
_TOKEN: Final = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_KEY: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
_ACKNOWLEDGED: Final = b"\x01"


class AccessToken(NamedTuple):
    """A token, and for how long it may be used again; None: only once.

    Attributes:
        value: as it is sent.
        expires_in_s: seconds from now.
    """

    value: str
    expires_in_s: float | None = None

    def __repr__(self) -> str:
        return f"AccessToken(..., expires_in_s={self.expires_in_s})"


class OAuthBearer:
    """OAUTHBEARER: shows the broker a token. Use it with TLS only.

    Args:
        fetch: returns a token; called in a worker thread whenever a new one is needed.
        authorization_id: act as another user, if the broker allows it.
        extensions: further values for the broker (KIP-342); the names are letters only.
        clock: seconds that only go forward; for tests.
    """

    name: ClassVar[str] = "OAUTHBEARER"

    def __init__(
        self,
        fetch: Callable[[], AccessToken | str],
        *,
        authorization_id: str = "",
        extensions: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        for name, value in (extensions or {}).items():
            if not _KEY.fullmatch(name) or not _VALUE.fullmatch(value) or name == "auth":
                raise ValueError(f"the extension {name!r} has an invalid name or value")
        self._fetch = fetch
        self._extensions = dict(extensions or {})
        self._authorization_id = authorization_id
        self._clock = clock
        self._lock = threading.Lock()
        self._token: str | None = None
        self._fetch_again_at = 0.0

    def __repr__(self) -> str:
        return "OAuthBearer(...)"

    def prepare(self) -> None:
        """Fetch the first token, or another one before it expires.

        Raises:
            AuthenticationError: no token could be fetched.
        """
        with self._lock:
            if self._token is not None and self._clock() < self._fetch_again_at:
                return
            fetched = self._fetch()
            token = AccessToken(fetched) if isinstance(fetched, str) else fetched
            if not _TOKEN.fullmatch(token.value):
                raise AuthenticationError("what should be a token has characters that none has")
            self._token = token.value
            self._fetch_again_at = self._clock() + _USED_SHARE * (token.expires_in_s or 0.0)

    def authenticate(self, host: str) -> Conversation:  # noqa: ARG002 - the same for all brokers
        """Show the token.

        Raises:
            AuthenticationError: the broker does not accept it.
        """
        if self._token is None:
            self.prepare()
        escaped = self._authorization_id.replace("=", "=3D").replace(",", "=2C")
        header = f"n,a={escaped}," if escaped else "n,,"
        pairs = {"auth": f"Bearer {self._token}", **self._extensions}
        listed = "".join(f"{name}={value}\x01" for name, value in pairs.items())
        answer = yield f"{header}\x01{listed}\x01".encode()
        if answer:
            self._fetch_again_at = 0.0
            yield _ACKNOWLEDGED  # the broker answers with its error
            raise AuthenticationError(f"the broker refused the token: {_status(answer)}")


def _status(answer: bytes) -> str:
    try:
        return f"{json.loads(answer)['status']}"[:100]
    except (ValueError, KeyError, TypeError):
        return "no reason given"


class ClientCredentials:
    """Fetches tokens for a program that has an id and a secret of its own (RFC 6749, 4.4).

    Args:
        url: the token endpoint.
        client_id: of the program.
        client_secret: of the program.
        scope: what the token is for, with blanks between.
        timeout_s: for the endpoint's answer.
    """

    def __init__(
        self,
        url: str,
        client_id: str,
        client_secret: str,
        *,
        scope: str | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("https", "http"):
            raise ValueError(f"the token endpoint is an https: address, not {url!r}")
        self._url = url
        self._client_id = client_id
        self._client_secret = client_secret
        self._scope = scope
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"ClientCredentials({self._url!r}, {self._client_id!r}, ...)"

    def __call__(self) -> AccessToken:
        """Fetch a token.

        Raises:
            AuthenticationError: the endpoint refuses, or cannot be reached.
        """
        form = {"grant_type": "client_credentials"}
        if self._scope:
            form["scope"] = self._scope
        credentials = ":".join(map(urllib.parse.quote_plus, (self._client_id, self._client_secret)))
        request = urllib.request.Request(
            self._url,
            urllib.parse.urlencode(form).encode(),
            {
                "Authorization": f"Basic {b64encode(credentials.encode()).decode()}",
                "Accept": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:
                content = answer.read(_SIZE_BYTES_MAX)
        except (OSError, ValueError) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            raise AuthenticationError(f"no token from {self._url}: {error}") from error
        return _access_token(self._url, content)


def _access_token(url: str, content: bytes) -> AccessToken:
    try:
        answer = cast("dict[str, Any]", json.loads(content))
        value, expires_in = answer["access_token"], answer.get("expires_in")
    except (ValueError, KeyError, TypeError):
        raise AuthenticationError(f"{url} answered with something else than a token") from None
    if not isinstance(value, str):
        raise AuthenticationError(f"{url} answered with something else than a token")
    return AccessToken(value, expires_in if isinstance(expires_in, int | float) else None)


def token_from_file(path: str | Path) -> Callable[[], str]:
    """Read the token from a file each time, as programs find it that others keep supplied."""

    def fetch() -> str:
        try:
            return Path(path).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise AuthenticationError(f"no token in {path}: {error}") from error

    return fetch


def unsecured_token(
    user: str, *, lifetime_s: float = 3600.0, claims: Mapping[str, object] | None = None
) -> AccessToken:
    """A token that nobody has signed, for tests: brokers that believe it are open to everybody."""
    now = time.time()
    body = {"sub": user, "iat": now, "exp": now + lifetime_s, **(claims or {})}
    parts = [urlsafe_b64encode(json.dumps(one).encode()) for one in ({"alg": "none"}, body)]
    value = ".".join(part.decode().rstrip("=") for part in parts)
    return AccessToken(f"{value}.", lifetime_s)
