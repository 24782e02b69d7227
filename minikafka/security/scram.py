"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): credentials, and the server side.

The server knows neither the password nor what a client needs to log in: of the salted password
only two keys derived from it are stored. The exchange, where ``bare`` is the first message without
its header::

    client   n,,n=alice,r=CLIENT
    server   r=CLIENT+SERVER,s=SALT,i=ITERATIONS
    client   c=biws,r=CLIENT+SERVER,p=PROOF      PROOF = client key XOR HMAC(stored key, all of it)
    server   v=SIGNATURE                         SIGNATURE = HMAC(server key, all of it)

A user without credentials gets a salt, too (`decoy_credential`), the same one every time and on
every broker, and fails with the proof, as a wrong password does. Kafka refuses it at once.

Channel binding is not offered. A client that says that it could do it (``y``) is let in, as RFC
5802 demands; Kafka refuses it. Delegation tokens (KIP-48: ``tokenauth=true``) are refused.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from .mechanisms import Challenge, Denied, Granted, Step

__all__ = [
    "ITERATIONS_DEFAULT",
    "ITERATIONS_MAX",
    "ITERATIONS_MIN",
    "SALT_SIZE_BYTES",
    "MalformedScramError",
    "ScramCredential",
    "ScramMechanism",
    "ScramServer",
    "credential_of_password",
    "credential_of_salted_password",
    "decoy_credential",
    "password_matches",
    "salted_password",
]

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384
ITERATIONS_DEFAULT: Final = 4096
SALT_SIZE_BYTES: Final = 32
"""Of the salts that minikafka itself makes."""

_OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
_NONCE: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_EXTENSION: Final = re.compile(r"[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+")
_ESCAPE: Final = re.compile(r"=(2C|3D)?")


class ScramMechanism(Enum):
    """A SCRAM mechanism; the value is its number in Kafka's requests and in the metadata log."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def title(self) -> str:
        """Its name on the wire and in settings: ``SCRAM-SHA-256``."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    @property
    def size_bytes(self) -> int:
        """Of its keys."""
        return 32 if self is ScramMechanism.SCRAM_SHA_256 else 64

    def mac(self, key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, self.hash_name)

    def hash(self, text: bytes) -> bytes:
        return hashlib.new(self.hash_name, text).digest()

    @classmethod
    def named(cls, title: str) -> ScramMechanism | None:
        return next((one for one in cls if one.title == title), None)


class ScramCredential(NamedTuple):
    """What is stored of a password: enough to verify a client, and to prove that to it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations}, ...)"


class MalformedScramError(ValueError):
    """A message is not of SCRAM's grammar, or asks for what is not supported."""


# --- credentials -------------------------------------------------------------------------------


def salted_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> bytes:
    """What AlterUserScramCredentials carries; takes milliseconds, on purpose."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of_salted_password(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    client_key = mechanism.mac(salted, b"Client Key")
    server_key = mechanism.mac(salted, b"Server Key")
    return ScramCredential(salt, mechanism.hash(client_key), server_key, iterations)


def credential_of_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int = ITERATIONS_DEFAULT
) -> ScramCredential:
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_of_salted_password(mechanism, salted, salt, iterations)


def password_matches(mechanism: ScramMechanism, credential: ScramCredential, password: str) -> bool:
    """Whether it is the password of a credential; takes milliseconds, on purpose."""
    found = credential_of_password(mechanism, password, credential.salt, credential.iterations)
    return hmac.compare_digest(found.stored_key, credential.stored_key)


def decoy_credential(mechanism: ScramMechanism, username: str, key: bytes) -> ScramCredential:
    """Credentials that no password matches, for a user that has none.

    Args:
        mechanism: the one that the client chose.
        username: the same one gets the same salt.
        key: what nobody outside knows, the same on all brokers.
    """
    name = username.encode()
    salt = hmac.digest(key, b"salt:" + name, "sha256")
    # Nobody knows a text whose hash this is.
    stored_key = mechanism.mac(key, b"stored:" + name)
    return ScramCredential(salt, stored_key, mechanism.mac(key, name), ITERATIONS_DEFAULT)


# --- messages ----------------------------------------------------------------------------------


class ClientFirst(NamedTuple):
    """The client's first message.

    Attributes:
        header: the beginning that the ``c`` of the final message has to repeat.
        bare: the rest, as it is signed.
        authorization_id: empty if there is none.
    """

    header: str
    bare: str
    authorization_id: str
    username: str
    nonce: str
    extensions: tuple[str, ...]


def parse_client_first(token: bytes) -> ClientFirst:
    """Read the client's first message.

    Raises:
        MalformedScramError: it is not one, or demands channel binding or an unknown extension.
    """
    parts = _text(token).split(",")
    if len(parts) < 4 or parts[0] not in ("n", "y"):
        raise MalformedScramError("the first message is malformed, or demands channel binding")
    flag, authorization_id, name, nonce, *extensions = parts
    if authorization_id and not authorization_id.startswith("a="):
        raise MalformedScramError("the authorization id is malformed")
    if not name.startswith("n="):
        raise MalformedScramError("there is no user name, or an unknown extension is demanded")
    if not nonce.startswith("r=") or _NONCE.fullmatch(nonce, 2) is None:
        raise MalformedScramError("there is no nonce")
    if not all(map(_EXTENSION.fullmatch, extensions)):
        raise MalformedScramError("an extension is malformed")
    header = f"{flag},{authorization_id},"
    return ClientFirst(
        header,
        ",".join(parts[2:]),
        _unescaped(authorization_id[2:]) if authorization_id else "",
        _unescaped(name[2:]),
        nonce[2:],
        tuple(extensions),
    )


class ClientFinal(NamedTuple):
    """The client's final message; ``without_proof`` is what is signed of it."""

    without_proof: str
    channel_binding: bytes
    nonce: str
    proof: bytes


def parse_client_final(token: bytes) -> ClientFinal:
    """Read the client's final message.

    Raises:
        MalformedScramError: it is not one.
    """
    without_proof, separator, proof = _text(token).rpartition(",p=")
    binding, _, rest = without_proof.partition(",")
    nonce, *extensions = rest.split(",")
    if not (separator and binding.startswith("c=") and nonce.startswith("r=")):
        raise MalformedScramError("the final message is malformed")
    if not all(map(_EXTENSION.fullmatch, extensions)):
        raise MalformedScramError("an extension is malformed")
    return ClientFinal(without_proof, _decoded(binding[2:]), nonce[2:], _decoded(proof))


def _text(token: bytes) -> str:
    try:
        text = token.decode()
    except UnicodeDecodeError:
        raise MalformedScramError("the message is not UTF-8") from None
    if "\0" in text:
        raise MalformedScramError("the message has a NUL")
    return text


def _unescaped(name: str) -> str:
    if not name:
        raise MalformedScramError("a name is empty")

    def replace(found: re.Match[str]) -> str:
        if found[1] is None:
            raise MalformedScramError("a name has an = that is neither =2C nor =3D")
        return "," if found[1] == "2C" else "="

    return _ESCAPE.sub(replace, name)


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise MalformedScramError("a value is not base64") from None


# --- the server --------------------------------------------------------------------------------


class ScramServer:
    """One authentication.

    Args:
        mechanism: which hash.
        find: a user's credential, or a decoy (`decoy_credential`).
        new_nonce: returns unpredictable printable ASCII without commas.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        find: Callable[[str], ScramCredential],
        new_nonce: Callable[[], str],
    ) -> None:
        self._mechanism = mechanism
        self._find = find
        self._new_nonce = new_nonce
        self._exchange: _Exchange | None = None

    def step(self, token: bytes) -> Step:
        exchange, self._exchange = self._exchange, None
        try:
            if exchange is None:
                return self._first(parse_client_first(token))
            return self._final(exchange, parse_client_final(token))
        except MalformedScramError as error:
            return Denied(f"{self._mechanism.title}: {error}")

    def _first(self, message: ClientFirst) -> Step:
        if any(one.lower() == "tokenauth=true" for one in message.extensions):
            return Denied("delegation tokens are not supported")
        if message.authorization_id not in ("", message.username):
            return Denied(_OTHER_AUTHORIZATION_ID, _OTHER_AUTHORIZATION_ID)
        credential = self._find(message.username)
        nonce = message.nonce + self._new_nonce()
        answer = f"r={nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        self._exchange = _Exchange(message, nonce, answer, credential)
        return Challenge(answer.encode())

    def _final(self, exchange: _Exchange, message: ClientFinal) -> Step:
        first, nonce, answer, credential = exchange
        mechanism = self._mechanism
        if message.channel_binding != first.header.encode():
            return Denied("the channel binding is not that of the first message")
        if message.nonce != nonce:
            return Denied("the nonce is not the one that was sent")
        signed = f"{first.bare},{answer},{message.without_proof}".encode()
        signature = mechanism.mac(credential.stored_key, signed)
        if len(message.proof) != len(signature):
            return Denied("the proof has another length than the hash")
        client_key = bytes(a ^ b for a, b in zip(message.proof, signature, strict=True))
        if not hmac.compare_digest(mechanism.hash(client_key), credential.stored_key):
            return Denied("no such user, or a wrong password")
        proof = mechanism.mac(credential.server_key, signed)
        return Granted(first.username, b"v=" + b64encode(proof))


class _Exchange(NamedTuple):
    """What the server remembers between its two messages."""

    first: ClientFirst
    nonce: str
    answer: str
    credential: ScramCredential
