"""The other side of SCRAM (RFC 5802), written from the RFC for tests: honest, or with a twist."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass, field

Twist = Callable[[str], str]


def honest(message: str) -> str:
    return message


@dataclass
class ScramServer:
    """Knows one user; ``twist_first`` and ``twist_final`` change what it says.

    Attributes:
        is_content: whether the client has proven that it knows the password.
    """

    username: str
    password: str
    hash_name: str = "sha256"
    salt: bytes = b"salt of the server"
    nonce: str = "+ours"
    iterations: int = 4_096
    twist_first: Twist = honest
    twist_final: Twist = honest
    is_content: bool = False
    _client_first: str = field(default="", init=False)
    _server_first: str = field(default="", init=False)

    def answer(self, message: bytes) -> bytes:
        text = message.decode()
        return self._first(text) if not self._client_first else self._final(text)

    def _first(self, text: str) -> bytes:
        assert text.startswith("n,,"), "no channel binding, no authorization id"
        self._client_first = text[3:]
        name, nonce = self._client_first.split(",r=")
        assert name.removeprefix("n=").replace("=2C", ",").replace("=3D", "=") == self.username
        salt = b64encode(self.salt).decode()
        said = f"r={nonce}{self.nonce},s={salt},i={self.iterations}"
        self._server_first = self.twist_first(said)
        return self._server_first.encode()

    def _final(self, text: str) -> bytes:
        without_proof, _, proof = text.rpartition(",p=")
        signed = f"{self._client_first},{self._server_first},{without_proof}".encode()
        salted = hashlib.pbkdf2_hmac(
            self.hash_name, self.password.encode(), self.salt, self.iterations
        )
        client_key = self._mac(salted, b"Client Key")
        signature = self._mac(hashlib.new(self.hash_name, client_key).digest(), signed)
        expected = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self.is_content = b64decode(proof) == expected
        if not self.is_content:
            return self.twist_final("e=invalid-proof").encode()
        server_signature = self._mac(self._mac(salted, b"Server Key"), signed)
        return self.twist_final(f"v={b64encode(server_signature).decode()}").encode()

    def _mac(self, key: bytes, text: bytes) -> bytes:
        return hmac.new(key, text, self.hash_name).digest()
