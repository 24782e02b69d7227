"""The answer to any request that says nothing but an error, as Kafka's ``getErrorResponse`` does.

What a response repeats of its request (topics, partitions, groups) is found by the fields' names,
for all APIs alike: an array whose entries have errors answers an array of the request, entry by
entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from minikafka.protocol.fields import Field, Struct
from minikafka.protocol.schema import Request, Response

_ALIASES: Final = (
    frozenset({"partition", "partition_index", "index", "partition_id"}),
    frozenset({"topic", "name", "topic_name"}),
)
"""Names of one thing in requests and responses."""
_IDENTITIES: Final = _ALIASES[0].union(
    _ALIASES[1],
    {"topic_id", "group_id", "key", "transactional_id", "resource_type", "resource_name"},
    {"member_id", "group_instance_id", "producer_id", "feature", "log_dir"},
)
_NUMBERS: Final = frozenset({"int8", "int16", "uint16", "int32", "uint32", "int64"})


def error_response(
    request: Request, response_class: type[Response], version: int, code: int
) -> Response:
    """The response to a request of which everything failed with one error.

    Args:
        request: what was asked.
        response_class: of the same API.
        version: of the request.
        code: Kafka's error code.
    """
    response = _answer(response_class, request, version, code)
    assert isinstance(response, Response)
    return response


def _answer(struct: type[Struct], asked: Any, version: int, code: int) -> Struct:
    """A struct of a response for a struct of a request, or for a mere name or number."""
    values: dict[str, Any] = {}
    for field in struct.FIELDS:
        if version not in field.versions:
            if field.is_required:
                values[field.name] = _nothing(field)
        elif field.name.endswith("error_code"):
            values[field.name] = code
        elif field.kind == "array" and field.item is not None and field.item.struct is not None:
            values[field.name] = _answer_each(field.item.struct, field.name, asked, version, code)
        elif field.name in _IDENTITIES:
            found = _identity(field, asked)
            if found is not None or field.is_required:
                values[field.name] = _nothing(field) if found is None else found
        elif field.is_required:
            values[field.name] = _nothing(field)
    return struct(**values)


def _answer_each(
    struct: type[Struct], name: str, asked: Any, version: int, code: int
) -> list[Struct]:
    if not any(_errors(struct)):
        return []
    is_named = any(field.name in _IDENTITIES for field in struct.FIELDS)
    return [
        _answer(struct, one, version, code)
        for one in _entries(name, asked)
        if not is_named or any(_identity(field, one) is not None for field in struct.FIELDS)
    ]


def _errors(struct: type[Struct]) -> Iterator[bool]:
    for field in struct.FIELDS:
        if field.kind == "array" and field.item is not None and field.item.struct is not None:
            yield from _errors(field.item.struct)
        elif field.name.endswith("error_code"):
            yield True


def _entries(name: str, asked: Any) -> Sequence[Any]:
    """The entries that an array answers: of the array with its name, else of the first in use."""
    if not isinstance(asked, Struct):
        return ()
    arrays: dict[str, Sequence[Any]] = {
        field.name: getattr(asked, field.name) or ()
        for field in asked.FIELDS
        if field.kind == "array"
    }
    found = arrays.get(name) or next((one for one in arrays.values() if one), ())
    if name == "results" and "dirs" in arrays:  # AlterReplicaLogDirs: topics of directories
        return [topic for directory in found for topic in directory.topics]
    return found


def _identity(field: Field, asked: Any) -> Any:
    """What a request calls the thing that a field of the response names; None if it does not."""
    if field.name not in _IDENTITIES:
        return None
    if not isinstance(asked, Struct):
        is_number = isinstance(asked, int)
        return asked if is_number == (field.kind in _NUMBERS) else None
    same = next((names for names in _ALIASES if field.name in names), {field.name})
    for one in asked.FIELDS:
        if one.name in same:
            return getattr(asked, one.name)
    return None


def _nothing(field: Field) -> Any:
    if field.nullable.first <= field.nullable.last and field.kind in {"string", "records"}:
        return "" if field.kind == "string" else None
    if field.kind in _NUMBERS:
        return -1
    if field.kind == "array":
        return []
    return field.default
