"""The exactly-once protocol, without Spark and without sockets; see the package for what it is.

Tasks and driver talk to Kafka through two small faces, so that tests can put a model in their place
and let anybody die at any step.
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
    """A task's transaction: written, and left open for the driver to decide about.

    Attributes:
        transactional_id, producer_id, producer_epoch: its name.
        is_two_phase: it has no timeout (KIP-939).
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_two_phase: bool


class CommitRecord(NamedTuple):
    """What the commit log says of a query: its newest batch, and the transactions that make it up.

    Attributes:
        run_id: which start of the query wrote it.
        batch_id: Spark's number.
        parts: the transactions.
        slots: by Spark partition, transactional ids that the next batch of this run may use again;
            of two-phase transactions, which a twin of the task that has the slot cannot abort.
    """

    run_id: str
    batch_id: int
    parts: tuple[Part, ...]
    slots: Mapping[int, str]


class Place(NamedTuple):
    """Which attempt of which task this is.

    Attributes:
        query_id: survives restarts of the query.
        run_id: does not.
        batch_id: Spark's number of the micro-batch.
        partition_id: of the rows.
        attempt_number: 0 unless a task is tried again, or twice at the same time.
        unique: the transactional id of this attempt and no other, made by `new_id`.
    """

    query_id: str
    run_id: str
    batch_id: int
    partition_id: int
    attempt_number: int
    unique: str


class Result(NamedTuple):
    """What a task tells the driver; ``part`` is None when it has written nothing."""

    place: Place
    part: Part | None
    is_recorded: bool = False
    """It has written nothing, because it has seen its batch in the commit log."""


class OpenPart(Protocol[_Rows_contra]):
    """A transaction that a task writes to."""

    def write(self, rows: Iterator[_Rows_contra]) -> None:
        """Send all rows."""
        ...

    def prepare(self) -> Part | None:
        """Wait until everything is stored; None: nothing was sent."""
        ...


class TaskKafka(Protocol[_Rows_contra]):
    """What a task needs of Kafka."""

    def newest(self, query_id: str) -> CommitRecord | None:
        """What the commit log says."""
        ...

    def begin(self, transactional_id: str) -> OpenPart[_Rows_contra] | None:
        """Begin a transaction; None: one is prepared under this id, and stays so (KIP-939)."""
        ...


class CommitLog(Protocol):
    """The commit log, in the hands of the driver that has claimed it."""

    def newest(self) -> CommitRecord | None:
        """What it says; nothing can be added to it behind the back of who has claimed it."""
        ...

    def record(self, record: CommitRecord) -> None:
        """Decide; raises unless it is certain that the record is in the log, and nothing after."""
        ...


class DriverKafka(Protocol):
    """What the driver needs of Kafka."""

    def newest(self, query_id: str) -> CommitRecord | None:
        """What the commit log says, if nobody is adding to it."""
        ...

    def claim(self, query_id: str) -> CommitLog:
        """From now on nobody who claimed it before can record anything."""
        ...

    def open_parts(self, query_id: str, known: frozenset[str]) -> Sequence[Part]:
        """The query's open transactions, except those of known transactional ids."""
        ...

    def commit_parts(self, parts: Sequence[Part]) -> Sequence[Part]:
        """Commit; may be repeated. Returns those that were aborted before; raises if unsure."""
        ...

    def abort_part(self, part: Part) -> None:
        """Abort exactly this transaction, if it is open."""
        ...


# --- the task ---


def run_task(kafka: TaskKafka[_Rows], place: Place, rows: Iterator[_Rows]) -> Result:
    """Write the rows of a task, unless its batch is recorded already.

    Raises:
        OldCheckpointError: a later batch is recorded.
    """
    first = next(rows, None)
    if first is None:
        return Result(place, None)
    newest = kafka.newest(place.query_id)
    _check_not_later(newest, place.query_id, place.batch_id)
    if newest is not None and newest.batch_id == place.batch_id:
        for _ in rows:  # Spark wants them read
            pass
        return Result(place, None, is_recorded=True)
    transaction = _begin(kafka, place, newest)
    transaction.write(chain([first], rows))
    return Result(place, transaction.prepare())


def _begin(kafka: TaskKafka[_Rows], place: Place, newest: CommitRecord | None) -> OpenPart[_Rows]:
    # Only a first attempt may use a slot. A stage that is tried again has first attempts, too, and
    # those before may still run: what is prepared there has to stay, which needs two phases.
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
            f"the commit log says that batch {newest.batch_id} of query {query_id} is written, "
            f"and this is batch {batch_id}: the checkpoint was set back to an older state. Begin "
            f"with a new checkpointLocation, or (rows will be there twice) write with another "
            f"commitLogTopic"
        )


# --- the driver ---


def commit(
    kafka: DriverKafka,
    batch_id: int,
    results: Sequence[Result],
    *,
    fail_on_data_loss: bool = True,
) -> None:
    """Make a batch visible: all of it, once, however often this is called.

    Raises:
        LostTransactionError: the batch is recorded, and a part of it was aborted.
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
                    f"tasks have seen that batch {batch_id} of query {query_id} is recorded, and "
                    f"the driver was not shown it; the query can be started again"
                )
            return  # an empty batch leaves no trace
        leftovers = _surely_older(kafka.open_parts(query_id, known), newest)
    else:
        # Listed before the decision: whatever is open now belongs to this batch or an older one.
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
        _tell_lost(batch_id, lost, fails=fail_on_data_loss)


def new_id(beginning: str, batch_id: int, nonce: str, attempt: int) -> str:
    """A new transactional id of a query; the nonce has no hyphen."""
    return f"{beginning}{batch_id}-{nonce}-{attempt}"


def _surely_older(parts: Sequence[Part], newest: CommitRecord) -> list[Part]:
    """Those that cannot belong to a batch after the newest one that is recorded.

    That takes ids that are new then, or those that the record sets free.
    """
    free = set(newest.slots.values())
    return [
        part
        for part in parts
        if part.transactional_id not in free and _first_batch(part) <= newest.batch_id
    ]


def _first_batch(part: Part) -> float:
    """For which batch a transactional id was made; of a foreign one nobody knows."""
    pieces = part.transactional_id.rsplit("-", 3)
    return int(pieces[1]) if len(pieces) == 4 and pieces[1].isdecimal() else math.inf


def record_of(
    batch_id: int, results: Sequence[Result], newest: CommitRecord | None
) -> CommitRecord:
    """What the driver decides: the parts of a batch, and the ids that are free after it."""
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


def _tell_lost(batch_id: int, lost: Sequence[Part], *, fails: bool) -> None:
    names = ", ".join(part.transactional_id for part in lost)
    text = (
        f"batch {batch_id} is recorded as committed, and {len(lost)} of its transactions were "
        f"aborted, because nobody committed them within their timeout: {names}. The rows in them "
        f"are not in the topic. Where brokers have transaction.two.phase.commit.enable=true, this "
        f"cannot happen. To go on without these rows, set failOnDataLoss to false"
    )
    if fails:
        raise LostTransactionError(text)
    logger.error("%s", text)


def abort(kafka: DriverKafka, batch_id: int, results: Sequence[Result]) -> None:
    """The batch failed: abort what its tasks have written, unless it is recorded."""
    written = [result.part for result in results if result.part is not None]
    if not written:
        return
    newest = kafka.claim(results[0].place.query_id).newest()
    if newest is None or newest.batch_id < batch_id:
        _abort_all(kafka, written)


def _abort_all(kafka: DriverKafka, parts: Sequence[Part]) -> None:
    """Abort what will never be committed; what cannot be aborted now, the next batch aborts."""
    for part in parts:
        try:
            kafka.abort_part(part)
        except Exception as error:  # noqa: BLE001 - whatever it is, the batch is decided already
            logger.warning("a leftover of %s is not aborted yet: %s", part.transactional_id, error)
