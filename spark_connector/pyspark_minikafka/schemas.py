"""The read schema in Spark's types, and the part of it that a user wants."""

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

from .columns.names import COLUMN_NAMES
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
"""The type of each column; all of them may be null as far as Spark is told."""


def read_schema(options: SourceOptions) -> StructType:
    """What a read gives without a schema of the user's own."""
    names = options.columns or tuple(
        name for name in COLUMN_NAMES if name != "headers" or options.include_headers
    )
    return StructType([StructField(name, SPARK_TYPES[name], True) for name in names])


def check_schema(schema: StructType) -> None:
    """Accept a schema with some of the columns, in any order.

    Raises:
        SchemaError: there is no such column, or it has another type.
    """
    for field in schema.fields:
        type_ = SPARK_TYPES.get(field.name)
        if type_ is None:
            meant = suggestion(field.name, COLUMN_NAMES) or f"; there are {', '.join(COLUMN_NAMES)}"
            raise SchemaError(f"schema: there is no column {field.name!r}{meant}")
        if field.dataType.simpleString() != type_.simpleString():
            raise SchemaError(
                f"schema: column {field.name!r} is {type_.simpleString()}, not "
                f"{field.dataType.simpleString()}; read it as it is, and cast it in the query"
            )
    if not schema.fields:
        raise SchemaError(f"schema: it has no column; there are {', '.join(COLUMN_NAMES)}")


def arrow_schema(schema: StructType) -> pa.Schema:
    """What the batches that are read have to look like.

    Spark compares it with what its own translation gives, which takes other arguments in each
    version.
    """
    import pyarrow as pa

    from .columns.decode import COLUMN_TYPES

    return pa.schema(
        [pa.field(field.name, COLUMN_TYPES[field.name], field.nullable) for field in schema.fields]
    )
