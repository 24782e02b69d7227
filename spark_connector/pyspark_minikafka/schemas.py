"""The read schema in Spark's types, and the subset that a user selects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from .columns import COLUMN_NAMES
from .errors import SchemaError
from .options import suggestion
from .source_options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

_HEADER: Final = StructType(
    [StructField("key", StringType(), True), StructField("value", BinaryType(), True)]
)
SPARK_TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(_HEADER),
}
"""All columns are declared as nullable."""


def read_schema(options: SourceOptions) -> StructType:
    """The schema of a read if the user gives none."""
    names = options.columns or tuple(
        name for name in COLUMN_NAMES if name != "headers" or options.include_headers
    )
    return StructType([StructField(name, SPARK_TYPES[name], True) for name in names])


def check_schema(schema: StructType) -> None:
    """Accept any of the columns, in any order.

    Raises:
        SchemaError: a column is unknown or has another type, or there is none.
    """
    for field in schema.fields:
        type_ = SPARK_TYPES.get(field.name)
        if type_ is None:
            meant = suggestion(field.name, COLUMN_NAMES) or f"; there are {', '.join(COLUMN_NAMES)}"
            raise SchemaError(f"schema: there is no column {field.name!r}{meant}")
        if field.dataType.simpleString() != type_.simpleString():
            raise SchemaError(
                f"schema: column {field.name!r} is {type_.simpleString()}, not "
                f"{field.dataType.simpleString()}; cast it in the query instead"
            )
    if not schema.fields:
        raise SchemaError(f"schema: it is empty; there are {', '.join(COLUMN_NAMES)}")


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema of the Arrow batches.

    Spark compares it with its own translation, which takes different arguments in each version.
    """
    import pyarrow as pa

    from .columns.decoder import COLUMN_TYPES

    return pa.schema(
        [pa.field(field.name, COLUMN_TYPES[field.name], field.nullable) for field in schema.fields]
    )
