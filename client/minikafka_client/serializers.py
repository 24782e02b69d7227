"""Keys and values as something else than bytes.

    async with Producer("localhost:9092", value_serializer=Json()) as producer:
        await producer.send("orders", {"apples": 42})

    async with Consumer("localhost:9092", group_id="g", value_deserializer=Json()) as consumer:
        ...
            print(record.value["apples"])

Without a serializer keys and values are bytes. None is never serialized: as a value it is a
tombstone, and is sent as such. A serializer is called once for each attempt to put a record into
the buffer, in the task or thread that sends; a deserializer once for each record, before it is
returned. What they raise becomes a `SerializationError` or `DeserializationError`.

Others of your own are two methods; see `Serializer` and `Deserializer`.
"""

from __future__ import annotations

import json
from typing import Any, Protocol, TypeVar

_Given = TypeVar("_Given", contravariant=True)
_Found = TypeVar("_Found", covariant=True)


class Serializer(Protocol[_Given]):
    """Turns keys or values into bytes."""

    def serialize(self, topic: str, given: _Given, /) -> bytes:
        """Encode a key or value for a topic; whatever it raises refuses the record."""
        ...


class Deserializer(Protocol[_Found]):
    """Turns bytes into keys or values."""

    def deserialize(self, topic: str, encoded: bytes, /) -> _Found:
        """Decode a key or value of a topic; whatever it raises stops the partition there."""
        ...


class Text:
    """`str`.

    Args:
        encoding: of the bytes.

    Raises:
        LookupError: there is no such encoding.
    """

    def __init__(self, encoding: str = "utf-8") -> None:
        "".encode(encoding)
        self.encoding = encoding

    def serialize(self, _topic: str, given: str, /) -> bytes:
        """Encode a text."""
        return given.encode(self.encoding)

    def deserialize(self, _topic: str, encoded: bytes, /) -> str:
        """Decode a text."""
        return encoded.decode(self.encoding)


class Json:
    """What JSON can say: dicts, lists, texts, numbers, bool; in UTF-8 and without blanks.

    None inside a value is JSON's null; None as the whole value is a tombstone.
    """

    def serialize(self, _topic: str, given: Any, /) -> bytes:
        """Encode a value."""
        return json.dumps(given, ensure_ascii=False, separators=(",", ":")).encode()

    def deserialize(self, _topic: str, encoded: bytes, /) -> Any:
        """Decode a value."""
        return json.loads(encoded)


class MsgPack:
    """What msgpack can say: as JSON, and bytes, integers as keys, and datetimes with a time zone.

    A datetime comes back in UTC.
    """

    def __init__(self) -> None:
        import msgpack

        self._msgpack = msgpack

    def serialize(self, _topic: str, given: Any, /) -> bytes:
        """Encode a value."""
        return bytes(self._msgpack.packb(given, datetime=True))

    def deserialize(self, _topic: str, encoded: bytes, /) -> Any:
        """Decode a value."""
        return self._msgpack.unpackb(encoded, timestamp=3, strict_map_key=False)
