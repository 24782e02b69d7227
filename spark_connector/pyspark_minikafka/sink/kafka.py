"""What tasks and driver need of Kafka, done with the client."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from minikafka_client.errors import KafkaError, TwoPhaseCommitError
from minikafka_client.sync import AdminClient, TransactionalWriter
from minikafka_client.types import ConfigResource

from .commit_log import PARTITION, create_commit_log, encode_commit, read_newest, read_range
from .endings import abort_part, commit_parts, find_open_parts
from .errors import StaleLogError
from .input_schema import InputColumns
from .plain import write_rows
from .protocol import CommitRecord, Part
from .settings import SinkSettings

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

_DRIVER: Final = "driver"
_MAX_TIMEOUT_SETTING: Final = "transaction.max.timeout.ms"
_MAX_TIMEOUT_DEFAULT_MS: Final = 900_000
_RECORD_TIMEOUT_MS: Final = 60_000

_one_phase_only: set[tuple[str, str]] = set()
"""Clusters and sinks that have refused two-phase commit: this process asks them only once."""


def transactional_id(sink_id: str, query_id: str, name: str) -> str:
    """Transactional ids of a query: all begin alike."""
    return f"{sink_id}-{query_id}-{name}"


class _Face:
    """Connections for administration, closed with the block."""

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
        """What the commit log says of a query."""
        return read_newest(self.admin, self.settings.commit_log_topic, query_id)[0]

    def writer(self, name: str, timeout_ms: int, *, is_two_phase: bool) -> TransactionalWriter:
        """A writer that has not said anything yet."""
        options = self.settings.producer_options()
        options["transactional_id"] = name
        options["transaction_timeout_ms"] = timeout_ms
        options["transaction_two_phase_commit_enable"] = is_two_phase
        writer = TransactionalWriter(self.settings.kafka.bootstrap, **options)
        self._writers.append(writer)
        return writer


class OpenTransaction:
    """A transaction that a task writes to."""

    def __init__(
        self, writer: TransactionalWriter, face: RealTaskKafka, name: str, *, is_two_phase: bool
    ) -> None:
        self._writer = writer
        self._face = face
        self._name = name
        self._is_two_phase = is_two_phase

    def write(self, rows: Iterator[pa.RecordBatch]) -> None:
        """Send all rows."""
        write_rows(self._writer, self._face.settings, self._face.columns, rows)

    def prepare(self) -> Part | None:
        """Wait until everything is stored; None: nothing was sent."""
        prepared = self._writer.prepare()
        return Part(self._name, *prepared, self._is_two_phase) if prepared else None


class RealTaskKafka(_Face):
    """A task's face of Kafka.

    Args:
        settings: the options.
        columns: of the rows.
    """

    def __init__(self, settings: SinkSettings, columns: InputColumns) -> None:
        super().__init__(settings)
        self.columns = columns

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Abort what a task that fails has written, if that can be done."""
        if exc is not None:
            for writer in self._writers:
                try:
                    writer.__exit__(exc_type, exc, traceback)
                except KafkaError as error:
                    logger.warning("the transaction of a failed task is left open: %s", error)
        super().__exit__(exc_type, exc, traceback)

    def begin(self, transactional_id: str) -> OpenTransaction | None:
        """Begin a transaction, with two phases if that can be had."""
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
        """As long as the broker allows: the driver has so much time to decide."""
        given = self.settings.kafka.producer_options().get("transaction_timeout_ms")
        if given is not None:
            return given
        try:
            nodes = sorted(each.node_id for each in self.admin.describe_cluster().brokers)
            resource = ConfigResource.broker(nodes[0])
            names = [_MAX_TIMEOUT_SETTING]
            entries = self.admin.describe_configs([resource], names=names)[resource]
        except KafkaError:  # not everybody may ask
            return _MAX_TIMEOUT_DEFAULT_MS
        entry = entries.get(_MAX_TIMEOUT_SETTING)
        return int(entry.value or 0) if entry is not None else _MAX_TIMEOUT_DEFAULT_MS


class ClaimedLog:
    """The commit log, claimed by the query's own transactional id: who had it before is fenced.

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
        """What it says."""
        found, self.read_until = read_newest(self._face.admin, self._topic, self._query_id)
        return found

    def record(self, record: CommitRecord) -> None:
        """Write a record in a transaction, so that who is fenced cannot.

        Where it comes to stand tells whether all that is before it was read: a leader that has
        lost its place unknowingly may have answered with less.

        Raises:
            StaleLogError: there is a record that was not read.
            KafkaError: it is not certain that it is recorded.
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
                    f"between {self.read_until} and {offset} that a broker had not shown; the "
                    f"batch is not decided, and the query can be started again"
                )
        writer.commit()


class RealDriverKafka(_Face):
    """The driver's face of Kafka."""

    def claim(self, query_id: str) -> ClaimedLog:
        """Take over the query's own transactional id."""
        create_commit_log(self.admin, self.settings.commit_log_topic)
        name = transactional_id(self.settings.sink_id, query_id, _DRIVER)
        writer = self.writer(name, _RECORD_TIMEOUT_MS, is_two_phase=False)
        writer.initialize()
        return ClaimedLog(self, writer, query_id)

    def open_parts(self, query_id: str, known: frozenset[str]) -> Sequence[Part]:
        """The query's open transactions, as far as brokers tell."""
        beginning = transactional_id(self.settings.sink_id, query_id, "")
        own = known | {beginning + _DRIVER}
        try:
            return self.admin.run_plan(lambda cluster: find_open_parts(cluster, beginning, own))
        except KafkaError as error:
            logger.warning("cannot look for what older attempts have left open: %s", error)
            return []

    def commit_parts(self, parts: Sequence[Part]) -> Sequence[Part]:
        """Commit all of them, at once."""
        return self.admin.run_plan(lambda cluster: commit_parts(cluster, parts))

    def abort_part(self, part: Part) -> None:
        """Abort exactly this one."""
        self.admin.run_plan(lambda cluster: abort_part(cluster, part))
