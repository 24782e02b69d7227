"""Applies serializers and deserializers to records, and wraps what they raise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minikafka_client.core.producer_batch import ProducerBatch
from minikafka_client.errors import DeserializationError, SerializationError
from minikafka_client.types import Headers

if TYPE_CHECKING:
    from minikafka_client.serializers import Deserializer, Serializer

Append = Callable[[str, Any, Any, "int | None", int, Headers], tuple[ProducerBatch, int]]
"""topic, value, key, partition, timestamp, headers -> batch, index; see `Appender.append`."""


class Serializers(NamedTuple):
    """A producer's; None: bytes."""

    key: Serializer[Any] | None = None
    value: Serializer[Any] | None = None

    def wrap(self, append: Append) -> Append:
        """The same function, for keys and values that are not bytes yet."""
        if self.key is None and self.value is None:
            return append
        serialize_key, serialize_value = self.key, self.value

        def append_serialized(
            topic: str,
            value: Any,
            key: Any,
            partition: int | None,
            timestamp_ms: int,
            headers: Headers,
        ) -> tuple[ProducerBatch, int]:
            if serialize_value is not None and value is not None:
                value = _serialized(serialize_value, topic, value, "value")
            if serialize_key is not None and key is not None:
                key = _serialized(serialize_key, topic, key, "key")
            return append(topic, value, key, partition, timestamp_ms, headers)

        return append_serialized


BYTES: Final = Serializers()
"""Nothing to be done."""


def _serialized(serializer: Serializer[Any], topic: str, given: object, part: str) -> bytes:
    name = type(serializer).__name__
    try:
        encoded = serializer.serialize(topic, given)
    except Exception as error:
        raise SerializationError(
            f"the {part} for topic {topic!r} is {type(given).__name__} {given!r:.100}, which "
            f"{name} cannot serialize: {error!r}"
        ) from error
    if type(encoded) is not bytes:
        raise SerializationError(
            f"{name} made {type(encoded).__name__} of a {part} for topic {topic!r}, not bytes"
        )
    return encoded


class Deserializers(NamedTuple):
    """A consumer's; None: bytes."""

    key: Deserializer[Any] | None = None
    value: Deserializer[Any] | None = None

    def __bool__(self) -> bool:
        return self.key is not None or self.value is not None


def deserialized(
    deserializer: Deserializer[Any],
    column: Iterable[bytes | None],
    part: str,
    topic: str,
    partition: int,
    offsets: Sequence[int],
) -> list[Any]:
    """Keys or values with the same indexes as ``offsets``, or `DeserializationError`."""
    found: list[Any] = []
    encoded: bytes | None = None
    try:
        for encoded in column:
            found.append(None if encoded is None else deserializer.deserialize(topic, encoded))
    except Exception as error:
        raise DeserializationError(
            topic, partition, offsets[len(found)], part, encoded or b"", type(deserializer).__name__
        ) from error
    return found
