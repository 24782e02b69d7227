"""Topics with every kind of record, and reads of them with both connectors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from minikafka_client.sync import AdminClient, Producer
from minikafka_client.types import NewTopic, TopicPartition

OFFICIAL, OURS = CONNECTORS = ("kafka", "minikafka")

START_MS: Final = 1_700_000_000_000
"""The timestamp of each partition's first record; the next ones follow a second apart."""

Row = tuple[Any, ...]
Options = dict[str, str]


@dataclass(frozen=True)
class Library:
    """Topics on one broker.

    Attributes:
        bootstrap: the broker.
        prefix: what the names of all topics begin with.
        partitions: how many each has.
    """

    bootstrap: str
    prefix: str
    partitions: dict[str, int]

    @property
    def plain(self) -> str:
        """Three partitions: 40 records; 9, of which the first 4 are deleted; none."""
        return f"{self.prefix}-plain"

    @property
    def packed(self) -> str:
        """One partition with a batch of each compression."""
        return f"{self.prefix}-packed"

    @property
    def committed(self) -> str:
        """Two partitions with transactions that were committed and aborted."""
        return f"{self.prefix}-committed"


def fill(bootstrap: str, prefix: str) -> Library:
    """Create the topics."""
    library = Library(bootstrap, prefix, {})
    library.partitions.update({library.plain: 3, library.packed: 1, library.committed: 2})
    with AdminClient(bootstrap) as admin:
        admin.create_topics([NewTopic(*item) for item in library.partitions.items()])
        with Producer(bootstrap) as producer:
            for number in range(49):
                partition = number >= 40
                producer.send(
                    library.plain,
                    None if number % 7 == 3 else b"v%d" % number * (number % 5),
                    None if number % 3 == 1 else b"k%d" % number,
                    partition=int(partition),
                    headers=_headers(number),
                    timestamp_ms=START_MS + 1000 * (number - 40 * partition),
                )
                if number % 11 == 0:
                    producer.flush()
            producer.flush()
        admin.delete_records({TopicPartition(library.plain, 1): 4})
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            with Producer(bootstrap, compression_type=codec) as producer:
                for number in range(5):
                    producer.send(library.packed, codec.encode() * (20 * number), codec.encode())
                producer.flush()
    _transactions(library)
    return library


def _headers(number: int) -> tuple[tuple[str, bytes | None], ...]:
    choices: list[tuple[tuple[str, bytes | None], ...]] = [
        (),
        (("a", b"1"), ("a", b"2")),
        (("", b""), ("é", None)),
    ]
    return choices[number % 4 % 3]


def _transactions(library: Library) -> None:
    with Producer(library.bootstrap, transactional_id=library.prefix) as producer:
        for number in range(6):
            try:
                with producer.transaction():
                    for partition in (0, 1):
                        for record in range(number + 1):
                            value = b"%d/%d" % (number, record)
                            producer.send(library.committed, value, partition=partition)
                    producer.flush()
                    if number % 3 == 1:
                        raise _ChangeOfMind
            except _ChangeOfMind:
                pass


class _ChangeOfMind(Exception):
    """Aborts a transaction."""


@dataclass(frozen=True)
class Outcome:
    """The result of a read.

    Attributes:
        rows: the columns, then the sorted rows; None if it failed.
        error: the message if it failed.
    """

    rows: list[Row] | None
    error: str = ""

    def __str__(self) -> str:
        """For the message of a failed test."""
        if self.rows is None:
            return f"fails: {self.error[:1500]}"
        return f"{len(self.rows) - 1} rows of {[name for name, _ in self.rows[0]]}"


def read(spark: SparkSession, connector: str, bootstrap: str, options: Options) -> Outcome:
    """Read a batch."""
    reader = spark.read.format(connector).option("kafka.bootstrap.servers", bootstrap)
    try:
        frame = reader.options(**options).load()
        rows = [tuple(map(_plain, row)) for row in frame.collect()]
        columns = [(field.name, field.dataType.simpleString()) for field in frame.schema]
    except Exception as error:  # noqa: BLE001 - py4j's are of no kind
        return Outcome(None, error_of(error))
    return Outcome([tuple(columns), *sorted(rows, key=lambda row: row[2:5])])


def _plain(cell: Any) -> Any:
    if isinstance(cell, list):
        return [tuple(map(_plain, each)) for each in cell]
    return bytes(cell) if isinstance(cell, bytearray) else cell


def error_of(error: Exception) -> str:
    """The message without stack traces."""
    lines = [line.strip() for line in str(error).splitlines()]
    return "\n".join(line for line in lines if not re.match(r"at |File |\^|\.\.\. ", line))
