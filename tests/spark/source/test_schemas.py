"""The columns of a read, in Spark's types and in Arrow's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from pyspark_minikafka.columns import COLUMN_NAMES
from pyspark_minikafka.errors import SchemaError
from pyspark_minikafka.schemas import SPARK_TYPES, arrow_schema, check_schema

schemas = st.lists(
    st.tuples(st.sampled_from(COLUMN_NAMES), st.booleans()), min_size=1, unique_by=lambda x: x[0]
).map(lambda columns: StructType([StructField(n, SPARK_TYPES[n], null) for n, null in columns]))


@given(schemas)
def test_arrow_batches_have_the_schema_that_spark_expects(schema: StructType) -> None:
    check_schema(schema)
    assert arrow_schema(schema) == to_arrow_schema(schema, timezone="UTC")


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("valeu binary", "there is no column 'valeu'; did you mean 'value'?"),
        ("zz integer", "there is no column 'zz'; there are key, value, topic,"),
        ("offset integer", "column 'offset' is bigint, not int; cast it in the query instead"),
    ],
)
def test_unknown_columns_and_types_are_refused(ddl: str, message: str) -> None:
    name, type_ = ddl.split()
    schema = StructType().add(name, type_)
    with pytest.raises(SchemaError) as caught:
        check_schema(schema)
    assert message in str(caught.value)
    with pytest.raises(SchemaError, match="schema: it is empty"):
        check_schema(StructType())
