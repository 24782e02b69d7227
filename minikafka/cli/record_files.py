"""Files that hold the records of a topic, for ``minikafka topic dump`` and ``topic load``.

A file is a head, the records, and an end with their number, so that a file that was cut off is
recognised. As JSON lines each of these is an object on a line of its own, and bytes are text, or
``{"base64": "..."}`` if they are not UTF-8; as msgpack each is an array.

    {"minikafka_records":1,"topic":"orders","partitions":3}
    {"partition":0,"offset":0,"timestamp_ms":1,"key":"k","value":"v","headers":[["h","x"]]}
    {"records":1}
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from typing import IO, Any, Final, Literal, NamedTuple, cast

import msgpack

from .output import json_bytes

__all__ = ["FileFormat", "FileRecord", "MalformedFileError", "Reading", "Writing"]

FileFormat = Literal["jsonl", "msgpack"]

_VERSION: Final = 1
_MARK: Final = "minikafka_records"
_LINE_BYTES_MAX: Final = 512 * 1024 * 1024
"""The longest line: a record of 128 MiB, as base64 or with every character escaped."""


class FileRecord(NamedTuple):
    """A record and where it was."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class MalformedFileError(ValueError):
    """The file is not a whole dump."""


class Writing:
    """Writes the parts of a file in order: the head when it is made, records, and the end."""

    def __init__(self, file: IO[bytes], form: FileFormat, topic: str, partitions: int) -> None:
        self.records = 0
        self.size_bytes = 0
        self._file = file
        self._form = form
        self._put({_MARK: _VERSION, "topic": topic, "partitions": partitions})

    def record(self, record: FileRecord) -> None:
        self.records += 1
        if self._form == "msgpack":
            self._put(record)
            return
        document = record._asdict()
        document["key"], document["value"] = json_bytes(record.key), json_bytes(record.value)
        document["headers"] = [(name, json_bytes(value)) for name, value in record.headers]
        self._put(document)

    def end(self) -> None:
        self._put({"records": self.records})

    def _put(self, part: object) -> None:
        if self._form == "msgpack":
            is_object = isinstance(part, dict)
            fields = list(cast("dict[str, object]", part).items()) if is_object else part
            packed: bytes = msgpack.packb(fields)
        else:
            text = json.dumps(part, ensure_ascii=False, separators=(",", ":"))
            packed = text.encode() + b"\n"
        self._file.write(packed)
        self.size_bytes += len(packed)


class Reading:
    """Reads a file: the head when it is made, then its records.

    Attributes:
        topic: the topic that was dumped.
        partitions: how many partitions it had.

    Raises:
        MalformedFileError: the file does not begin as a dump does.
    """

    def __init__(self, file: IO[bytes], form: FileFormat) -> None:
        self._parts = _msgpack_parts(file) if form == "msgpack" else _json_parts(file)
        self._form = form
        head = _object(next(self._parts, None))
        if not isinstance(head.get(_MARK), int):
            raise MalformedFileError("this is no file of `minikafka topic dump`, or not as " + form)
        if head[_MARK] != _VERSION:
            raise MalformedFileError(
                f"the file has version {head[_MARK]}, and this minikafka reads {_VERSION}"
            )
        topic, partitions = head.get("topic"), head.get("partitions")
        if not isinstance(topic, str) or not isinstance(partitions, int) or partitions < 1:
            raise MalformedFileError(f"the head of the file names no topic: {head!r:.200}")
        self.topic = topic
        self.partitions = partitions

    def records(self) -> Iterator[FileRecord]:
        """The records in the order of the file.

        Raises:
            MalformedFileError: a record cannot be read, or the end is missing.
        """
        count = 0
        for part in self._parts:
            end = _object(part).get("records")
            if end is not None:
                if end != count:
                    raise MalformedFileError(f"the file has {count} records and says {end}")
                return
            yield self._record(part, count)
            count += 1
        raise MalformedFileError(f"the file was cut off after {count} records")

    def _record(self, part: Any, count: int) -> FileRecord:
        try:
            if self._form == "msgpack":
                partition, offset, timestamp_ms, key, value, headers = part
                found = tuple((name, content) for name, content in headers)
            else:
                partition, offset = part["partition"], part["offset"]
                timestamp_ms = part["timestamp_ms"]
                key, value = _octets(part["key"]), _octets(part["value"])
                found = tuple((name, _octets(content)) for name, content in part["headers"])
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise _bad_record(count, error) from None
        fields: tuple[Any, ...] = (partition, offset, timestamp_ms, key, value, found)
        if not _is_sound(fields) or not 0 <= partition < self.partitions:
            raise _bad_record(count, fields)
        return FileRecord(*fields)


def _bad_record(count: int, why: object) -> MalformedFileError:
    return MalformedFileError(f"record {count + 1} of the file cannot be read: {why!r:.200}")


def _is_sound(fields: tuple[Any, ...]) -> bool:
    def is_octets(value: object) -> bool:
        return value is None or isinstance(value, bytes)

    return (
        all(type(number) is int for number in fields[:3])
        and all(is_octets(octets) for octets in fields[3:5])
        and all(isinstance(name, str) and is_octets(value) for name, value in fields[5])
    )


def _octets(shown: Any) -> bytes | None:
    if shown is None:
        return None
    if isinstance(shown, str):
        return shown.encode()
    return base64.b64decode(shown["base64"], validate=True)


def _object(part: Any) -> dict[str, Any]:
    """A head or an end; empty for a record."""
    if isinstance(part, dict):
        return cast("dict[str, Any]", part)
    try:
        return {str(name): value for name, value in part}
    except (TypeError, ValueError):
        return {}


def _json_parts(file: IO[bytes]) -> Iterator[Any]:
    while line := file.readline(_LINE_BYTES_MAX):
        try:
            yield json.loads(line)
        except ValueError as error:
            raise MalformedFileError(f"a line of the file is not JSON: {error}") from None


def _msgpack_parts(file: IO[bytes]) -> Iterator[Any]:
    unpacker = msgpack.Unpacker(file, max_buffer_size=_LINE_BYTES_MAX)
    try:
        yield from unpacker
    except (ValueError, msgpack.UnpackException) as error:
        raise MalformedFileError(f"the file is not msgpack: {error!r:.200}") from None
