"""The connector's exceptions; Spark shows the last line of each."""

from __future__ import annotations


class OptionError(ValueError):
    """An option is unknown, missing, contradictory or malformed."""


class SchemaError(ValueError):
    """The user's schema has columns that the source does not have."""


class EnvironmentMismatchError(RuntimeError):
    """A Python lacks a package, or has another version of the connector."""


class DataLossError(RuntimeError):
    """Records that the query should have read are no longer in the topic.

    With ``failOnDataLoss`` set to false the query continues without them.
    """


def data_loss(what: str) -> DataLossError:
    """The error for lost records."""
    return DataLossError(
        f"records were lost: {what}. To continue without them, set failOnDataLoss to false"
    )
