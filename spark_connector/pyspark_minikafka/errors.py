"""What the connector raises on purpose; Spark shows the last line of it."""

from __future__ import annotations


class OptionError(ValueError):
    """An option is unknown, is missing, contradicts another one or has a value it cannot have."""


class SchemaError(ValueError):
    """The schema that the user gave has columns that the source does not have."""


class EnvironmentMismatchError(RuntimeError):
    """The Python that runs a task is not set up as the connector needs it."""


class DataLossError(RuntimeError):
    """Records that the query should have read are not in the topic any more.

    With the option ``failOnDataLoss`` set to false the query goes on without them.
    """
