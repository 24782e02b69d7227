"""The protocol's interfaces to Kafka, implemented with the client."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from minikafka_client.errors import KafkaError, TwoPhaseCommitError
from minikafka_client.sync import AdminClient, TransactionalWriter
from minikafka_client.types import ConfigResource

from .at_least_once import write_rows
from .commit_log import PARTITION, create_commit_log, encode_commit, read_newest, read_range
from .errors import StaleLogError
from .input_schema import InputColumns
from .protocol import CommitRecord, Part
from .settings import SinkSettings
from .transactions import abort_part, commit_parts, find_open_parts

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

_DRIVER: Final = "driver"
_MAX_TIMEOUT_SETTING: Final = "transaction.max.timeout.ms"
_MAX_TIMEOUT_DEFAULT_MS: Final = 900_000
_RECORD_TIMEOUT_MS: Final = 60_000

_one_phase_only: set[tuple[str, str]] = set()
"""Clusters and sinks that refused two-phase commit; this process asks each only once."""


def transactional_id(sink_id: str, query_id: str, name: str) -> str:
    """A transactional id of a query; all have the same prefix."""
    return f"{sink_id}-{query_id}-{name}"


class _Face:
    """An administrator and writers, which are closed with the block."""

    def __init__(self, settings: SinkSettings) -> None:
        self.settings = settings
        self._connection = settings.kafka.connection_options()
        self.admin = AdminClient(settings.kafka.bootstrap, **self._connection)
        self._writers: list[TransactionalWriter] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for writer in self._writers:
            writer.close()
        self.admin.close()

    def newest(self, query_id: str) -> CommitRecord | None:
        return read_newest(self.admin, self.settings.commit_log_topic, query_id)[0]

    def writer(self, name: str, timeout_ms: int, *, is_two_phase: bool) -> TransactionalWriter:
        """A writer that is not initialized yet."""
        options = self.settings.producer_options()
        options["transactional_id"] = name
        options["transaction_timeout_ms"] = timeout_ms
        options["transaction_two_phase_commit_enable"] = is_two_phase
        writer = TransactionalWriter(self.settings.kafka.bootstrap, **options)
        self._writers.append(writer)
        return writer


class OpenTransaction:
    """An open transaction of a task."""

    def __init__(
        self, writer: TransactionalWriter, face: RealTaskKafka, name: str, *, is_two_phase: bool
    ) -> None:
        self._writer = writer
        self._face = face
        self._name = name
        self._is_two_phase = is_two_phase

    def write(self, rows: Iterator[pa.RecordBatch]) -> None:
        write_rows(self._writer, self._face.settings, self._face.columns, rows)

    def prepare(self) -> Part | None:
        prepared = self._writer.prepare()
        return Part(self._name, *prepared, self._is_two_phase) if prepared else None


class RealTaskKafka(_Face):
    def __init__(self, settings: SinkSettings, columns: InputColumns) -> None:
        super().__init__(settings)
        self.columns = columns

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Abort what a failed task wrote, if possible."""
        if exc is not None:
            for writer in self._writers:
                try:
                    writer.__exit__(exc_type, exc, traceback)
                except KafkaError as error:
                    logger.warning("cannot abort the transaction of a failed task: %s", error)
        super().__exit__(exc_type, exc, traceback)

    def begin(self, transactional_id: str) -> OpenTransaction | None:
        """Begin a transaction, with two-phase commit if possible."""
        settings = self.settings
        cluster = (settings.kafka.bootstrap, settings.sink_id)
        if settings.two_phase_commit != "off" and cluster not in _one_phase_only:
            writer = self.writer(transactional_id, _RECORD_TIMEOUT_MS, is_two_phase=True)
            try:
                if writer.initialize() is not None:
                    return None
            except TwoPhaseCommitError:
                if settings.two_phase_commit == "required":
                    raise
                _one_phase_only.add(cluster)
            else:
                writer.begin()
                return OpenTransaction(writer, self, transactional_id, is_two_phase=True)
        writer = self.writer(transactional_id, self._longest_timeout_ms(), is_two_phase=False)
        writer.begin()
        return OpenTransaction(writer, self, transactional_id, is_two_phase=False)

    def _longest_timeout_ms(self) -> int:
        """The longest timeout that the broker allows, to give the driver time to decide."""
        given = self.settings.kafka.producer_options().get("transaction_timeout_ms")
        if given is not None:
            return given
        try:
            nodes = sorted(each.node_id for each in self.admin.describe_cluster().brokers)
            resource = ConfigResource.broker(nodes[0])
            names = [_MAX_TIMEOUT_SETTING]
            entries = self.admin.describe_configs([resource], names=names)[resource]
        except KafkaError:  # it may not be authorized
            return _MAX_TIMEOUT_DEFAULT_MS
        entry = entries.get(_MAX_TIMEOUT_SETTING)
        return int(entry.value or 0) if entry is not None else _MAX_TIMEOUT_DEFAULT_MS


class ClaimedLog:
    """The commit log, claimed by the query's own transactional id, which fences earlier drivers.

    Attributes:
        read_until: the end of the log when it was read; None before.
    """

    def __init__(self, face: RealDriverKafka, writer: TransactionalWriter, query_id: str) -> None:
        self._face = face
        self._writer = writer
        self._query_id = query_id
        self._topic = face.settings.commit_log_topic
        self.read_until: int | None = None

    def newest(self) -> CommitRecord | None:
        found, self.read_until = read_newest(self._face.admin, self._topic, self._query_id)
        return found

    def record(self, record: CommitRecord) -> None:
        """Write a record in a transaction, so that a fenced driver cannot.

        The record's offset shows whether everything before it was read: a deposed leader may have
        returned less.

        Raises:
            StaleLogError: there is a record that was not read.
            KafkaError: the record may not be in the log.
        """
        writer = self._writer
        writer.begin()
        writer.send(
            self._topic, encode_commit(record), self._query_id.encode(), partition=PARTITION
        )
        writer.flush()
        offset = writer.end_offsets[self._topic, PARTITION] - 1
        if self.read_until is not None and self.read_until < offset:
            admin = self._face.admin
            if read_range(admin, self._topic, self._query_id, self.read_until, offset) is not None:
                writer.abort()
                raise StaleLogError(
                    f"the commit log {self._topic!r} has a record of query {self._query_id} "
                    f"between {self.read_until} and {offset} that a broker had not returned; the "
                    f"batch is not decided; restart the query"
                )
        writer.commit()


class RealDriverKafka(_Face):
    def claim(self, query_id: str) -> ClaimedLog:
        """Claim the commit log with the query's own transactional id."""
        create_commit_log(self.admin, self.settings.commit_log_topic)
        name = transactional_id(self.settings.sink_id, query_id, _DRIVER)
        writer = self.writer(name, _RECORD_TIMEOUT_MS, is_two_phase=False)
        writer.initialize()
        return ClaimedLog(self, writer, query_id)

    def open_parts(self, query_id: str, known: frozenset[str]) -> Sequence[Part]:
        """The query's open transactions; those of unreachable coordinators are missing."""
        beginning = transactional_id(self.settings.sink_id, query_id, "")
        own = known | {beginning + _DRIVER}
        try:
            return self.admin.run_plan(lambda cluster: find_open_parts(cluster, beginning, own))
        except KafkaError as error:
            logger.warning("cannot list the open transactions of older attempts: %s", error)
            return []

    def commit_parts(self, parts: Sequence[Part]) -> Sequence[Part]:
        return self.admin.run_plan(lambda cluster: commit_parts(cluster, parts))

    def abort_part(self, part: Part) -> None:
        self.admin.run_plan(lambda cluster: abort_part(cluster, part))
