"""The exactly-once protocol without Spark and without sockets; the package explains it.

Tasks and driver use Kafka through two small interfaces, so that tests can replace it by a model and
let any process die at any step.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Protocol, TypeVar

from .errors import LostTransactionError, OldCheckpointError, StaleLogError

logger = logging.getLogger(__name__)

_Rows = TypeVar("_Rows")
_Rows_contra = TypeVar("_Rows_contra", contravariant=True)


class Part(NamedTuple):
    """A task's transaction: written, and left open for the driver to decide.

    Attributes:
        is_two_phase: whether it has no timeout (KIP-939).
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_two_phase: bool


class CommitRecord(NamedTuple):
    """A query's newest batch in the commit log, and its transactions.

    Attributes:
        run_id: identifies the start of the query that wrote it.
        slots: by Spark partition, the transactional ids that the next batch of this run may use
            again. They are of two-phase transactions, which another attempt of the task cannot
            abort.
    """

    run_id: str
    batch_id: int
    parts: tuple[Part, ...]
    slots: Mapping[int, str]


class Place(NamedTuple):
    """Identifies a task attempt.

    Attributes:
        query_id: stays the same when the query is restarted.
        run_id: changes then.
        partition_id: Spark's, of the rows.
        attempt_number: 0 unless a task is repeated, or run twice at the same time.
        unique: a transactional id of this attempt only, made by `new_id`.
    """

    query_id: str
    run_id: str
    batch_id: int
    partition_id: int
    attempt_number: int
    unique: str


class Result(NamedTuple):
    """What a task returns to the driver; ``part`` is None if it wrote nothing."""

    place: Place
    part: Part | None
    is_recorded: bool = False
    """It wrote nothing, because its batch is in the commit log."""


class OpenPart(Protocol[_Rows_contra]):
    """A transaction that a task writes to."""

    def write(self, rows: Iterator[_Rows_contra]) -> None:
        """Send all rows."""
        ...

    def prepare(self) -> Part | None:
        """Wait until everything is stored; None if nothing was sent."""
        ...


class TaskKafka(Protocol[_Rows_contra]):
    """What a task needs of Kafka."""

    def newest(self, query_id: str) -> CommitRecord | None:
        """The query's record in the commit log."""
        ...

    def begin(self, transactional_id: str) -> OpenPart[_Rows_contra] | None:
        """Begin a transaction; None if one is prepared under this id, which stays so (KIP-939)."""
        ...


class CommitLog(Protocol):
    """The commit log as claimed by a driver."""

    def newest(self) -> CommitRecord | None:
        """The query's record; no other driver can add one after the claim."""
        ...

    def record(self, record: CommitRecord) -> None:
        """Decide; raises unless it is certain that the record is the last one in the log."""
        ...


class DriverKafka(Protocol):
    """What the driver needs of Kafka."""

    def newest(self, query_id: str) -> CommitRecord | None:
        """The query's record in the commit log, if no driver is adding one."""
        ...

    def claim(self, query_id: str) -> CommitLog:
        """Claim the commit log; drivers that claimed it before cannot record anything."""
        ...

    def open_parts(self, query_id: str, known: frozenset[str]) -> Sequence[Part]:
        """The query's open transactions, except those of known transactional ids."""
        ...

    def commit_parts(self, parts: Sequence[Part]) -> Sequence[Part]:
        """Commit (idempotent); returns those that were already aborted; raises if unsure."""
        ...

    def abort_part(self, part: Part) -> None:
        """Abort exactly this transaction, if it is open."""
        ...


# --- the task ---


def run_task(kafka: TaskKafka[_Rows], place: Place, rows: Iterator[_Rows]) -> Result:
    """Write the rows of a task, unless its batch is already recorded.

    Raises:
        OldCheckpointError: a later batch is recorded.
    """
    first = next(rows, None)
    if first is None:
        return Result(place, None)
    newest = kafka.newest(place.query_id)
    _check_not_later(newest, place.query_id, place.batch_id)
    if newest is not None and newest.batch_id == place.batch_id:
        for _ in rows:  # Spark expects them to be consumed
            pass
        return Result(place, None, is_recorded=True)
    transaction = _begin(kafka, place, newest)
    transaction.write(chain([first], rows))
    return Result(place, transaction.prepare())


def _begin(kafka: TaskKafka[_Rows], place: Place, newest: CommitRecord | None) -> OpenPart[_Rows]:
    # Only a first attempt may use a slot. A repeated stage has first attempts, too, while the
    # earlier ones may still run: what they prepared must stay, which needs two-phase commit.
    if newest is not None and newest.run_id == place.run_id and place.attempt_number == 0:
        slot = newest.slots.get(place.partition_id)
        transaction = None if slot is None else kafka.begin(slot)
        if transaction is not None:
            return transaction
    transaction = kafka.begin(place.unique)
    if transaction is None:
        raise RuntimeError(f"the new transactional id {place.unique!r} is in use: a bug")
    return transaction


def _check_not_later(newest: CommitRecord | None, query_id: str, batch_id: int) -> None:
    if newest is not None and newest.batch_id > batch_id:
        raise OldCheckpointError(
            f"batch {newest.batch_id} of query {query_id} is in the commit log, and this is batch "
            f"{batch_id}: the checkpoint was set back to an older state. Use a new "
            f"checkpointLocation, or another commitLogTopic (rows will be duplicated)"
        )


# --- the driver ---


def commit(
    kafka: DriverKafka,
    batch_id: int,
    results: Sequence[Result],
    *,
    fail_on_data_loss: bool = True,
) -> None:
    """Make a batch visible, completely and once; may be repeated.

    Raises:
        LostTransactionError: the batch is recorded, but a part of it was aborted.
        OldCheckpointError: a later batch is recorded.
    """
    if not results:
        return
    query_id = results[0].place.query_id
    written = [result.part for result in results if result.part is not None]
    known = frozenset(part.transactional_id for part in written)
    if not written:
        newest = kafka.newest(query_id)
        _check_not_later(newest, query_id, batch_id)
        if newest is None or newest.batch_id != batch_id:
            if any(result.is_recorded for result in results):
                raise StaleLogError(
                    f"tasks found batch {batch_id} of query {query_id} in the commit log, but a "
                    f"broker did not return it to the driver; restart the query"
                )
            return  # an empty batch leaves no trace
        leftovers = _surely_older(kafka.open_parts(query_id, known), newest)
    else:
        # Listed before the decision: what is open now belongs to this batch or an older one.
        leftovers = list(kafka.open_parts(query_id, known))
        log = kafka.claim(query_id)
        newest = log.newest()
        _check_not_later(newest, query_id, batch_id)
        if newest is None or newest.batch_id != batch_id:
            newest = record_of(batch_id, results, newest)
            log.record(newest)
        else:
            leftovers = _surely_older(leftovers, newest)
    recorded = set(newest.parts)
    leftovers = [part for part in (*leftovers, *written) if part not in recorded]
    lost = kafka.commit_parts(newest.parts)
    _abort_all(kafka, leftovers)
    if lost:
        _report_lost(batch_id, lost, fails=fail_on_data_loss)


def new_id(beginning: str, batch_id: int, nonce: str, attempt: int) -> str:
    """A new transactional id of a query; the nonce must not contain a hyphen."""
    return f"{beginning}{batch_id}-{nonce}-{attempt}"


def _surely_older(parts: Sequence[Part], newest: CommitRecord) -> list[Part]:
    """The parts that cannot belong to a batch after the recorded one.

    Such a batch uses ids that are made for it, or those that the record frees.
    """
    free = set(newest.slots.values())
    return [
        part
        for part in parts
        if part.transactional_id not in free and _first_batch(part) <= newest.batch_id
    ]


def _first_batch(part: Part) -> float:
    """The batch that a transactional id was made for; infinite for a foreign id."""
    pieces = part.transactional_id.rsplit("-", 3)
    return int(pieces[1]) if len(pieces) == 4 and pieces[1].isdecimal() else math.inf


def record_of(
    batch_id: int, results: Sequence[Result], newest: CommitRecord | None
) -> CommitRecord:
    """The driver's decision: the parts of a batch, and the ids that are free after it."""
    run_id = results[0].place.run_id
    before: Mapping[int, str] = {}
    if newest is not None and newest.run_id == run_id:
        before = newest.slots
    slots: dict[int, str] = {}
    for place, part, _ in results:
        if part is not None:
            if part.is_two_phase:
                slots[place.partition_id] = part.transactional_id
        elif place.attempt_number == 0 and place.partition_id in before:
            slots[place.partition_id] = before[place.partition_id]
    parts = tuple(result.part for result in results if result.part is not None)
    return CommitRecord(run_id, batch_id, parts, slots)


def _report_lost(batch_id: int, lost: Sequence[Part], *, fails: bool) -> None:
    names = ", ".join(part.transactional_id for part in lost)
    text = (
        f"batch {batch_id} is recorded as committed, but {len(lost)} of its transactions timed "
        f"out and were aborted before they were committed: {names}. Their rows are not in the "
        f"topic. Brokers with transaction.two.phase.commit.enable=true prevent this. To continue "
        f"without these rows, set failOnDataLoss to false"
    )
    if fails:
        raise LostTransactionError(text)
    logger.error("%s", text)


def abort(kafka: DriverKafka, batch_id: int, results: Sequence[Result]) -> None:
    """Abort the parts of a failed batch, unless it is recorded."""
    written = [result.part for result in results if result.part is not None]
    if not written:
        return
    newest = kafka.claim(results[0].place.query_id).newest()
    if newest is None or newest.batch_id < batch_id:
        _abort_all(kafka, written)


def _abort_all(kafka: DriverKafka, parts: Sequence[Part]) -> None:
    """Abort what will never be committed; the next batch aborts what cannot be aborted now."""
    for part in parts:
        try:
            kafka.abort_part(part)
        except Exception as error:  # noqa: BLE001 - the batch is already decided
            logger.warning("cannot abort a leftover of %s yet: %s", part.transactional_id, error)
