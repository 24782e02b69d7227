"""Finds the field that made an encoder fail.

Encoders check nothing that Python and the struct module check anyway, but their errors ("required
argument is not an integer") do not name the field. This walk over the declarations does.
"""

from __future__ import annotations

import struct
from typing import Any, cast

from minikafka.protocol.codec import FIXED
from minikafka.protocol.fields import Field, Struct, is_buffer, struct_fields
from minikafka.protocol.flexible import STRING_SIZE_BYTES_MAX


def first_fault(message: Struct, version: int) -> str | None:
    """Name the first field whose value cannot be encoded, its value, and what it must be."""
    for field in struct_fields(type(message), version):
        if not hasattr(message, field.name):
            return f"{field.name} has no value"
        fault = _fault(getattr(message, field.name), field, field.name, version)
        if fault is not None:
            return fault
    return None


def _fault(value: Any, field: Field, path: str, version: int) -> str | None:
    if value is None:
        if version in field.nullable or field.kind == "records":
            return None
        return f"{path} is None, which version {version} does not allow"
    match field.kind:
        case "struct":
            return _struct_fault(value, field, path, version)
        case "array":
            return _array_fault(value, field, path, version)
        case "string":
            return _text_fault(value, path)
        case "uuid":
            is_uuid = is_buffer(value) and len(value) == 16
            return None if is_uuid else _is_not(value, path, "16 bytes")
        case "bytes":
            is_bytes = is_buffer(value)
            return None if is_bytes else _is_not(value, path, "bytes")
        case "records":
            return None if hasattr(value, "__len__") else _is_not(value, path, "a buffer or None")
        case _:
            return _number_fault(value, field, path)


def _struct_fault(value: Any, field: Field, path: str, version: int) -> str | None:
    assert field.struct is not None
    if not isinstance(value, field.struct):
        return _is_not(value, path, f"a {field.struct.__name__}")
    fault = first_fault(value, version)
    return None if fault is None else f"{path}.{fault}"


def _array_fault(value: Any, field: Field, path: str, version: int) -> str | None:
    assert field.item is not None
    if not isinstance(value, list | tuple):
        return _is_not(value, path, "a list")
    for index, item in enumerate(cast("list[Any]", value)):
        fault = _fault(item, field.item, f"{path}[{index}]", version)
        if fault is not None:
            return fault
    return None


def _text_fault(value: Any, path: str) -> str | None:
    if not isinstance(value, str):
        return _is_not(value, path, "a str")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        return f"{path} is not text that UTF-8 can hold: {error}"
    if size > STRING_SIZE_BYTES_MAX:
        return f"{path} has {size} bytes of UTF-8; at most {STRING_SIZE_BYTES_MAX} are allowed"
    return None


def _number_fault(value: Any, field: Field, path: str) -> str | None:
    try:
        struct.pack(">" + FIXED[field.kind][0], value)
    except (struct.error, OverflowError, TypeError):
        return _is_not(value, path, f"a number that fits {field.kind}")
    return None


def _is_not(value: Any, path: str, what: str) -> str:
    shown = repr(value)
    if len(shown) > 100:
        shown = shown[:100] + "..."
    return f"{path} is {shown}; it must be {what}"
