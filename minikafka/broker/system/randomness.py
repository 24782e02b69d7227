"""Random ids, from one generator that a test or a simulation may seed."""

from __future__ import annotations

import base64
import random
import uuid


class RandomIds:
    """Draws ids and numbers.

    Attributes:
        rng: the generator behind them.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def topic_id(self) -> bytes:
        """Sixteen bytes that are not all zero, which would mean "no id"."""
        return self.rng.randrange(1, 2**128).to_bytes(16, "big")

    def directory_id(self) -> bytes:
        """Of a data directory, as `topic_id`."""
        return self.topic_id()

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128)))

    def cluster_id(self) -> str:
        """Sixteen bytes as 22 characters, the form of Kafka's cluster ids."""
        return base64.urlsafe_b64encode(self.rng.randbytes(16)).decode().rstrip("=")

    def positive_int(self) -> int:
        """A number that fits into Kafka's int32."""
        return self.rng.getrandbits(31)
