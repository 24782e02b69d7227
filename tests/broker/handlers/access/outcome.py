"""What of a response the table of rights compares: names that are shown, and errors of rights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fields import ZERO_UUID, Struct
from minikafka.protocol.schema import Response

NAMES: Final = ("mine", "unmade", "made", "made-by-asking", "else", "gone")
_OF_RIGHTS: Final = {int(one): one.name for one in ErrorCode if "AUTHORIZATION" in one.name}
_NAMING: Final = (
    "name",
    "topic",
    "topic_name",
    "group_id",
    "transactional_id",
    "key",
    "resource_name",
)
_NOT_ASKED: Final = -(2**31)


def outcome_of(response: Response, topic_ids: Mapping[str, bytes]) -> list[str]:
    """Lines such as ``topics mine: TOPIC_AUTHORIZATION_FAILED``; ``ok`` for every other error."""
    names = {topic_id: name for name, topic_id in topic_ids.items()}
    return sorted(_lines(response, "", names))


def _lines(struct: Struct, path: str, names: Mapping[bytes, str]) -> Iterator[str]:
    for field in struct.FIELDS:
        value = getattr(struct, field.name, None)
        if field.name.endswith("error_code"):
            word = _OF_RIGHTS.get(value or 0, "ok")
            if word != "ok" or not path:
                yield f"{path}{field.name.removesuffix('_code')}: {word}"
        elif field.name.endswith("authorized_operations") and value != _NOT_ASKED:
            yield f"{path}operations: {value}"
        elif field.kind == "array" and field.item is not None and field.item.struct is not None:
            for one in value or ():
                name = _name(one, names)
                if name is None or name not in (*NAMES, "?", "id of mine"):
                    if name is None:
                        yield from _lines(one, f"{path}{field.name} ", names)
                    continue
                yield f"{path}{field.name} {name}"
                yield from _lines(one, f"{path}{field.name} {name} ", names)


def _name(struct: Any, names: Mapping[bytes, str]) -> str | None:
    """What an entry is called; ``?`` if its name is hidden, None if it is of no kind with names."""
    fields = [field.name for field in struct.FIELDS]
    own = next((one for one in _NAMING if one in fields), None)
    topic_id = getattr(struct, "topic_id", None) if "topic_id" in fields else None
    name = None if own is None else getattr(struct, own, None)
    if name:
        is_refused = getattr(struct, "error_code", 0) in _OF_RIGHTS
        return (
            f"{name}" if not (is_refused and topic_id and topic_id != ZERO_UUID) else "id of mine"
        )
    if topic_id and bytes(topic_id) in names:
        return f"id of {names[bytes(topic_id)]}"
    return "?" if own is not None else None
