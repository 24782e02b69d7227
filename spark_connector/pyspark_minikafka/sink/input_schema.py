"""The columns of a write; names, types and refusals are those of Spark's own connector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from ..errors import SchemaError

_BYTES: Final = (StringType, BinaryType)
_TYPES: Final[dict[str, tuple[type[DataType], ...]]] = {
    "key": _BYTES,
    "value": _BYTES,
    "topic": (StringType,),
    "partition": (IntegerType,),
}
_HEADERS: Final = "array<struct<key:string,value:binary>>"


@dataclass(frozen=True)
class InputColumns:
    """The positions of the columns in the rows; None if there is no such column.

    Columns with other names are ignored.
    """

    value: int
    key: int | None = None
    headers: int | None = None
    topic: int | None = None
    partition: int | None = None


def input_columns(schema: StructType, topic: str | None) -> InputColumns:
    """Find the columns, and check their types.

    Args:
        schema: of the rows.
        topic: the option ``topic``, which overrides the column.

    Raises:
        SchemaError: ``value`` or the topic is missing, or a column has a wrong type.
    """
    found: dict[str, int] = {}
    for index, field in enumerate(schema.fields):
        if field.name in _TYPES or field.name == "headers":
            _check_type(field)
            found[field.name] = index
    if "value" not in found:
        raise SchemaError(
            f"the column 'value' is missing; the columns are {', '.join(schema.fieldNames())}: "
            f"select(to_json(struct('*')).alias('value'))"
        )
    if topic is None and "topic" not in found:
        raise SchemaError(
            "the option 'topic' is missing, and there is no column 'topic'; set the option, or add "
            "the column"
        )
    if topic is not None:
        found.pop("topic", None)
    return InputColumns(**found)


def _check_type(field: StructField) -> None:
    if field.name == "headers":
        if not _is_headers(field.dataType):
            raise SchemaError(
                f"the column 'headers' is {field.dataType.simpleString()}; it must be {_HEADERS}"
            )
        return
    allowed = _TYPES[field.name]
    if not isinstance(field.dataType, allowed):
        names = " or ".join(each().simpleString() for each in allowed)
        raise SchemaError(
            f"the column {field.name!r} is {field.dataType.simpleString()}; it must be {names}: "
            f"cast it"
        )


def _is_headers(data_type: DataType) -> bool:
    if not isinstance(data_type, ArrayType) or not isinstance(data_type.elementType, StructType):
        return False
    fields = data_type.elementType.fields
    return (
        [field.name for field in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and isinstance(fields[1].dataType, BinaryType)
    )
