"""How two nodes show each other that they know a shared secret, without sending it.

The side that was connected to sends a nonce, and the other one a nonce of its own and a proof; only
then does the first say anything about itself, with a proof in turn. Each proof is an HMAC-SHA256
over its direction, both nonces and both node ids: so it holds for one connection between these two
nodes, and neither a recorded nor a reflected one, nor one made for another node, is worth anything.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, NamedTuple

__all__ = ["NONCE_SIZE_BYTES", "SECRET_LENGTH_MIN", "Meeting", "is_same"]

NONCE_SIZE_BYTES: Final = 32
SECRET_LENGTH_MIN: Final = 16
"""Characters: who records a proof can try out short secrets."""

_LABEL: Final = b"minikafka internal listener 1"


class Meeting(NamedTuple):
    """What a proof is bound to.

    Attributes:
        asking: the node id of the side that connected.
        answering: the node id of the side that was connected to.
        asking_nonce: random bytes of the former.
        answering_nonce: random bytes of the latter.
    """

    asking: int
    answering: int
    asking_nonce: bytes
    answering_nonce: bytes

    def asking_proof(self, secret: str) -> bytes:
        """What the side that connected sends."""
        return self._proof(secret, b"asking")

    def answering_proof(self, secret: str) -> bytes:
        """What the side that was connected to sends."""
        return self._proof(secret, b"answering")

    def _proof(self, secret: str, direction: bytes) -> bytes:
        parts = (
            _LABEL,
            direction,
            str(self.asking).encode(),
            str(self.answering).encode(),
            self.asking_nonce,
            self.answering_nonce,
        )
        # The lengths keep the parts apart.
        message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.new(secret.encode(), message, hashlib.sha256).digest()


def is_same(one: bytes, other: bytes) -> bool:
    """Compare proofs in a time that says nothing about them."""
    return hmac.compare_digest(one, other)
