"""The oracle: kio, an independent codec that is generated from Kafka's own files.

kio's classes have our fields in our order, except that its durations and times are Python's (and
lose the suffix ``_ms``), error codes are an enum, uuids are `uuid.UUID`, lists are tuples, and None
stands for the zero uuid and for the time -1.
"""

from __future__ import annotations

import dataclasses
import io
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from minikafka.protocol.api import ApiKey
from minikafka.protocol.fields import Field, Struct, struct_fields
from minikafka.protocol.schema import Request
from tests.protocol.instances import Case

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
ZERO = UUID(int=0)


NEWER_VERSIONS: Final = {
    ApiKey.API_VERSIONS: 5,
    ApiKey.TXN_OFFSET_COMMIT: 6,
    ApiKey.DELETE_GROUPS: 3,
    ApiKey.STREAMS_GROUP_HEARTBEAT: 1,
    ApiKey.STREAMS_GROUP_DESCRIBE: 1,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: 0,
}
"""Versions of Kafka 4.4 that kio does not have; `test_codec_against_java` has bytes of them."""

NEWER_APIS: Final = frozenset({ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE})
"""APIs of Kafka 4.4 that kio does not have."""

NEWER_ERRORS: Final = {
    "GROUP_DELETION_FAILED",
    "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED",
    "CONTROLLER_ID_NOT_REGISTERED",
}
"""Error codes of Kafka 4.4 that kio does not have."""


def is_known(case: Case) -> bool:
    """Whether kio has this version."""
    return case.version != NEWER_VERSIONS.get(ApiKey(case.message.API_KEY))


class KioField:
    def __init__(self, declared: dataclasses.Field[Any]) -> None:
        self.name = declared.name
        self.kafka_type: str | None = declared.metadata.get("kafka_type")
        self.tag: int | None = declared.metadata.get("tag")
        # ``X``, ``X | None``, ``tuple[X, ...]`` or ``tuple[X, ...] | None``
        inner = declared.type
        arguments = getattr(inner, "__args__", ())
        self.nullable = type(None) in arguments
        if self.nullable:
            (inner,) = (argument for argument in arguments if argument is not type(None))
        self.is_array = getattr(inner, "__origin__", None) is tuple
        if self.is_array:
            inner = inner.__args__[0]  # type: ignore[union-attr]  # a tuple type has arguments
        self.struct: Any = inner if dataclasses.is_dataclass(inner) else None


def kio_fields(kio_class: Any) -> list[KioField]:
    """The fields of one of kio's classes, in wire order."""
    return [KioField(declared) for declared in dataclasses.fields(kio_class)]


def kio_class(case: Case) -> Any:
    """Kio's class for one version of one of our messages."""
    load = load_request_schema if issubclass(case.message, Request) else load_response_schema
    return load(case.message.API_KEY, case.version)


def kio_bytes(case: Case, message: Struct) -> bytes:
    """Kio's encoding of the same values."""
    target = io.BytesIO()
    cls = kio_class(case)
    entity_writer(cls)(target, to_kio(message, case.version, cls))
    return target.getvalue()


def kio_read(case: Case, wire: bytes) -> tuple[Any, int]:
    """Kio's object for these bytes, and how many of them it read."""
    return entity_reader(kio_class(case))(wire, 0)


def to_kio(struct: Struct, version: int, cls: Any) -> Any:
    """Our struct as an object of kio's class."""
    values = {}
    for ours, theirs in zip(struct_fields(type(struct), version), kio_fields(cls), strict=True):
        values[theirs.name] = _value_to_kio(getattr(struct, ours.name), ours, theirs, version)
    return cls(**values)


def _value_to_kio(value: Any, ours: Field, theirs: KioField, version: int) -> Any:
    if value is None:
        return None
    if theirs.is_array:
        if theirs.struct is not None:
            return tuple(to_kio(item, version, theirs.struct) for item in value)
        return tuple(value)
    if theirs.struct is not None:
        return to_kio(value, version, theirs.struct)
    match theirs.kafka_type:
        case "timedelta_i32" | "timedelta_i64":
            return value * MILLISECOND
        case "datetime_i64":
            return None if value == -1 else EPOCH + value * MILLISECOND
        case "error_code":
            return KioErrorCode(value)
        case "uuid":
            return None if value == bytes(16) else UUID(bytes=value)
        case _:
            return value


def values_of_kio(entity: Any) -> dict[str, Any]:
    """Kio's object as plain values, comparable with `values_of`."""
    return {
        field.name: _plain_kio(getattr(entity, field.name), field)
        for field in kio_fields(type(entity))
    }


def _plain_kio(value: Any, field: KioField) -> Any:
    match field.kafka_type:
        case "uuid":
            return (value or ZERO).bytes
        case "datetime_i64":
            # kio computes in floats, so its times can be off by a microsecond.
            return -1 if value is None else round((value - EPOCH) / MILLISECOND)
        case "timedelta_i32" | "timedelta_i64":
            return value // MILLISECOND
        case _:
            pass
    if value is None:
        return None
    if field.struct is None:
        return list(value) if field.is_array else value
    return [values_of_kio(item) for item in value] if field.is_array else values_of_kio(value)


def values_of(struct: Struct, version: int) -> dict[str, Any]:
    """Our struct as plain values under kio's names: only the fields of the version."""
    return {
        kio_name(field): _plain(getattr(struct, field.name), version)
        for field in struct_fields(type(struct), version)
    }


def _plain(value: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return values_of(value, version)
    if isinstance(value, list):
        return [_plain(item, version) for item in value]
    return value


def kio_name(field: Field) -> str:
    """Kio's name of one of our fields."""
    return field.name.removesuffix("_ms")
