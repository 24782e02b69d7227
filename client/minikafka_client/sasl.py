"""SASL mechanisms for ``sasl=...`` (KIP-43, KIP-84, KIP-152, KIP-255).

    Producer("broker:9093", ssl_context=ssl.create_default_context(),
             sasl=ScramSha512("alice", "her password"))

OAUTHBEARER is in `minikafka_client.oauth`. A mechanism of your own has a ``name`` and a method
``authenticate``; see `minikafka_client.options.Mechanism`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import ClassVar, Final

from minikafka_client.errors import AuthenticationError
from minikafka_client.options import Conversation
from minikafka_client.types import ScramMechanismName, ScramUpsertion

ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 1_000_000
"""A server could keep a client computing for hours."""
_SALT_SIZE_BYTES: Final = 32


class Plain:
    """PLAIN: the password itself is sent (RFC 4616). Use it with TLS only.

    Args:
        authorization_id: act as another user, if the broker allows it.
    """

    name: ClassVar[str] = "PLAIN"

    def __init__(self, username: str, password: str, *, authorization_id: str = "") -> None:
        _check(username, password)
        self.username = username
        self._password = password
        self._authorization_id = authorization_id

    def __repr__(self) -> str:
        return f"Plain({self.username!r}, ...)"

    def authenticate(self, host: str) -> Conversation:  # noqa: ARG002 - the same for all brokers
        """Send the credentials."""
        yield "\0".join((self._authorization_id, self.username, self._password)).encode()


class _Scram:
    """SCRAM: proves that both sides know the password, without saying it (RFC 5802, RFC 7677).

    Args:
        password: in UTF-8, not normalized further, as in Kafka.
        new_nonce: returns an unpredictable string; for tests.
    """

    name: ClassVar[str]
    _hash: ClassVar[str]

    def __init__(
        self, username: str, password: str, *, new_nonce: Callable[[], str] | None = None
    ) -> None:
        _check(username, password)
        self.username = username
        self._password = password
        self._new_nonce = new_nonce or (lambda: secrets.token_urlsafe(24))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.username!r}, ...)"

    def authenticate(self, host: str) -> Conversation:  # noqa: ARG002 - the same for all brokers
        """Prove it, and let the server prove it.

        Raises:
            AuthenticationError: the server does not know the password, or breaks the rules.
        """
        nonce = self._new_nonce()
        escaped = self.username.replace("=", "=3D").replace(",", "=2C")
        first_bare = f"n={escaped},r={nonce}"
        server_first = (yield f"n,,{first_bare}".encode()).decode()
        said = _attributes(server_first)
        their_nonce, salt, iterations = _challenge(said, nonce)
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), salt, iterations)
        client_key = self._mac(salted, b"Client Key")
        final_bare = f"c={b64encode(b'n,,').decode()},r={their_nonce}"
        signed = f"{first_bare},{server_first},{final_bare}".encode()
        signature = self._mac(hashlib.new(self._hash, client_key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_final = yield f"{final_bare},p={b64encode(proof).decode()}".encode()
        said = _attributes(server_final.decode())
        if "e" in said:
            raise AuthenticationError(f"the broker refused {self.username!r}: {said['e']}")
        expected = self._mac(self._mac(salted, b"Server Key"), signed)
        if not hmac.compare_digest(_decoded(said.get("v", "")), expected):
            raise AuthenticationError(
                f"the broker cannot prove that it knows the password of {self.username!r}; it may "
                f"be somebody else's"
            )

    def _mac(self, key: bytes, text: bytes) -> bytes:
        return hmac.new(key, text, self._hash).digest()


class ScramSha256(_Scram):
    """SCRAM-SHA-256; see the attributes of `_Scram` for what it needs."""

    name = "SCRAM-SHA-256"
    _hash = "sha256"


class ScramSha512(_Scram):
    """SCRAM-SHA-512; see the attributes of `_Scram` for what it needs."""

    name = "SCRAM-SHA-512"
    _hash = "sha512"


def scram_upsertion(
    user: str,
    password: str,
    mechanism: ScramMechanismName = "SCRAM-SHA-512",
    *,
    iterations: int = ITERATIONS_MIN,
    salt: bytes | None = None,
) -> ScramUpsertion:
    """A user's password, as ``AdminClient.alter_user_scram_credentials`` takes it (KIP-554).

    The password itself is not sent. A user that logs in with both mechanisms needs both.

    Args:
        user: its name; it may be new.
        password: in UTF-8, not normalized further, as in Kafka.
        mechanism: the one that it is for.
        iterations: 4,096 to 16,384 in Kafka; logging in takes as long.
        salt: at random by default.
    """
    _check(user, password)
    salt = secrets.token_bytes(_SALT_SIZE_BYTES) if salt is None else salt
    hash_name = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
    return ScramUpsertion(user, mechanism, iterations, salt, salted)


def _check(username: str, password: str) -> None:
    if not username or not password:
        raise ValueError("username and password must not be empty")
    if "\0" in username + password:
        raise ValueError("username and password must not contain NUL")


def _attributes(message: str) -> dict[str, str]:
    """``r=...,s=...`` as a dict; the first of each name counts."""
    found: dict[str, str] = {}
    for part in message.split(","):
        name, _, value = part.partition("=")
        found.setdefault(name, value)
    return found


def _challenge(said: dict[str, str], nonce: str) -> tuple[str, bytes, int]:
    """Nonce, salt and iterations of the server's first message.

    Raises:
        AuthenticationError: it demands an unknown extension, or does not answer our message.
    """
    if "e" in said:
        raise AuthenticationError(f"the broker refused: {said['e']}")
    if "m" in said:
        raise AuthenticationError("the broker demands an unknown SCRAM extension")
    theirs = said.get("r", "")
    if not theirs.startswith(nonce) or len(theirs) == len(nonce):
        raise AuthenticationError("the broker's nonce does not continue ours: a replayed answer?")
    try:
        iterations = int(said.get("i", ""))
    except ValueError:
        iterations = 0
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise AuthenticationError(
            f"the broker asks for {said.get('i', 'no')!r} iterations; between {ITERATIONS_MIN} and "
            f"{ITERATIONS_MAX} are taken"
        )
    salt = _decoded(said.get("s", ""))
    if not salt:
        raise AuthenticationError("the broker sent no salt")
    return theirs, salt, iterations


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return b""
