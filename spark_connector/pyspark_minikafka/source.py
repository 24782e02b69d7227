"""The data source that Spark finds by its name.

Spark imports this module in every session, whether or not it is used, so the import must be fast.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from .options import Options


class DefaultSource(DataSource):
    """``spark.read``, ``readStream``, ``write`` and ``writeStream`` of ``format("minikafka")``.

    Args:
        options: those of Spark's own connector, and a few more; see `options.py`.

    Raises:
        OptionError: an option is unknown, or the options of a read are wrong.
        EnvironmentMismatchError: a package is missing in this Python.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        from .environment import check_packages
        from .options import STRATEGIES
        from .source_options import general_options

        check_packages()
        given = self._given()
        if any(name in given for name in STRATEGIES):
            general_options(given)

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "minikafka"

    def _given(self) -> Options:
        from .options import Options

        return Options(self.options)

    def schema(self) -> StructType:
        """The columns of a read, as ``includeHeaders`` and ``columns`` choose them.

        Raises:
            OptionError: the options are not those of a read.
        """
        from .schemas import read_schema
        from .source_options import general_options

        return read_schema(general_options(self._given()))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read a batch.

        Raises:
            OptionError: the options are not those of a batch.
            SchemaError: the user's schema has columns that the source does not have.
        """
        from .batch_reader import BatchReader
        from .schemas import check_schema
        from .source_options import batch_options

        check_schema(schema)
        return BatchReader(batch_options(self._given()), schema)

    def streamReader(  # noqa: N802 - the name is Spark's
        self, schema: StructType
    ) -> DataSourceStreamReader:
        """Read a stream. The reader's first method checks the options."""
        from .stream_reader import StreamReader

        return StreamReader(self._given(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Write a batch."""
        from .sink import make_batch_writer

        return make_batch_writer(self._given(), schema, overwrite)

    def streamWriter(  # noqa: N802 - the name is Spark's
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """Write a stream."""
        from .sink import make_stream_writer

        return make_stream_writer(self._given(), schema, overwrite)
