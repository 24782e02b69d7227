"""Scenarios of the protocol that random simulations reach too rarely."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from minikafka.coordinator.transaction import TransactionState
from pyspark_minikafka.sink import protocol
from pyspark_minikafka.sink.errors import LostTransactionError, OldCheckpointError, StaleLogError
from pyspark_minikafka.sink.protocol import CommitRecord, Place, Result
from tests.spark.sink.actors import Actor
from tests.spark.sink.model import TIMEOUT_MS, ModelDriverKafka, ModelKafka, ModelTaskKafka

QUERY = "query"


def go_on() -> None:
    """No pause."""


class BlindTaskKafka(ModelTaskKafka):
    """A task that has read the commit log long ago."""

    def newest(self, query_id: str) -> CommitRecord | None:
        return None


class Story:
    """Runs tasks and drivers one after the other."""

    def __init__(self, *, allows_two_phases: bool = True) -> None:
        self.kafka = ModelKafka(allows_two_phases=allows_two_phases)
        self._unique = 0

    def task(
        self,
        batch_id: int,
        *rows: str,
        partition: int = 0,
        attempt: int = 0,
        run: str = "run",
        face: type[ModelTaskKafka] = ModelTaskKafka,
    ) -> Result:
        self._unique += 1
        unique = protocol.new_id(f"{QUERY}-", batch_id, "x", self._unique)
        place = Place(QUERY, run, batch_id, partition, attempt, unique)
        return protocol.run_task(face(self.kafka, go_on), place, iter(rows))

    def commit(self, batch_id: int, *results: Result, **options: bool) -> None:
        protocol.commit(ModelDriverKafka(self.kafka, go_on), batch_id, results, **options)

    def driver(self, batch_id: int, *results: Result) -> Actor[None]:
        """A driver that is run step by step."""
        return Actor(
            lambda pause: protocol.commit(ModelDriverKafka(self.kafka, pause), batch_id, results)
        )

    @property
    def open(self) -> list[str]:
        return self.kafka.transactions(TransactionState.ONGOING)


def step_until(actor: Actor[None], is_so: Callable[[], object]) -> None:
    while not is_so():
        assert not actor.is_over
        actor.step()


def test_a_batch_becomes_visible_when_the_driver_commits_it() -> None:
    story = Story()
    results = [story.task(0, "a", "b"), story.task(0, "c", partition=1)]
    assert story.kafka.visible == []
    story.commit(0, *results)
    assert sorted(story.kafka.visible) == ["a", "b", "c"]


def test_a_recorded_batch_is_not_written_again() -> None:
    story = Story()
    story.commit(0, story.task(0, "a"))
    again = story.task(0, "a", run="next")
    assert again.part is None
    story.commit(0, again)
    assert story.kafka.visible == ["a"]


def test_a_task_that_missed_the_record_writes_in_vain() -> None:
    story = Story()
    story.commit(0, story.task(0, "a"))
    again = story.task(0, "a", run="next", face=BlindTaskKafka)
    assert again.part is not None
    story.commit(0, again)
    assert (story.kafka.visible, story.open) == (["a"], [])


def test_a_driver_that_repeats_a_batch_leaves_the_next_batch_alone() -> None:
    story = Story()
    story.commit(0, story.task(0, "a"))
    again = story.task(0, "a", run="old", face=BlindTaskKafka)
    following = story.task(1, "b")
    story.commit(0, again)
    story.commit(1, following)
    assert (story.kafka.visible, story.open) == (["a", "b"], [])


def test_a_late_driver_leaves_the_next_batch_alone() -> None:
    story = Story()
    late = story.driver(0, story.task(0, "a"))
    step_until(late, lambda: story.kafka.commits)
    story.commit(0, story.task(0, "a", run="next"))
    following = story.task(1, "b", run="next")
    late.finish()
    assert late.error is None
    story.commit(1, following)
    assert story.kafka.visible == ["a", "b"]


def test_a_late_driver_records_nothing() -> None:
    story = Story()
    late = story.driver(0, story.task(0, "late"))
    step_until(late, lambda: f"{QUERY}-driver" in story.open)
    story.commit(0, story.task(0, "next", run="next"))
    late.finish()
    assert late.error is not None
    assert (story.kafka.visible, story.open) == (["next"], [])


def test_transactions_of_failed_attempts_are_aborted() -> None:
    story = Story()
    story.task(0, "a", attempt=0)
    story.commit(0, story.task(0, "a", attempt=1))
    assert (story.kafka.visible, story.open) == (["a"], [])


def test_a_repeated_batch_aborts_what_failed_attempts_leave_open() -> None:
    story = Story()
    story.task(0, "a", attempt=0)
    driver = story.driver(0, story.task(0, "a", attempt=1))
    step_until(driver, lambda: story.kafka.visible)
    driver.kill()
    assert len(story.open) == 1
    story.commit(0, story.task(0, "a", run="next"))
    assert (story.kafka.visible, story.open) == (["a"], [])


def test_a_second_first_attempt_does_not_end_a_prepared_transaction() -> None:
    story = Story()
    story.commit(0, story.task(0, "a"))
    first = story.task(1, "b")
    twin = story.task(1, "b")
    assert None not in (first.part, twin.part)
    story.commit(1, first)
    assert (story.kafka.visible, story.open) == (["a", "b"], [])


def test_a_recorded_part_is_committed_even_if_its_id_was_taken_over() -> None:
    story = Story()
    story.commit(0, story.task(0, "a"))
    driver = story.driver(1, story.task(1, "b"))
    before = dict(story.kafka.commits)
    step_until(driver, lambda: story.kafka.commits != before)
    story.task(1, "b", face=BlindSlots)
    driver.finish()
    assert driver.error is None
    story.commit(2, story.task(2, "c"))
    assert (story.kafka.visible, story.open) == (["a", "b", "c"], [])


class BlindSlots(ModelTaskKafka):
    """A task that has read the previous batch's record, but not that of its own batch."""

    def newest(self, query_id: str) -> CommitRecord | None:
        found = super().newest(query_id)
        assert found is not None
        return found._replace(batch_id=found.batch_id - 1)


@pytest.mark.parametrize(("two_phases", "ids"), [(True, 3), (False, 15)])
def test_transactional_ids_are_used_again(two_phases: bool, ids: int) -> None:
    """Two phases only: otherwise a twin of the task that uses the id would abort its rows."""
    story = Story(allows_two_phases=two_phases)
    for batch_id in range(5):
        results = [story.task(batch_id, f"{batch_id}-{p}", partition=p) for p in range(3)]
        story.commit(batch_id, *results)
    assert len(story.kafka.coordinator.shard.entries()) == ids + 1


@pytest.mark.parametrize("two_phases", [True, False])
def test_a_repeated_stage_has_first_attempts_too(two_phases: bool) -> None:
    story = Story(allows_two_phases=two_phases)
    story.commit(0, story.task(0, "a"))
    first = story.task(1, "b")
    story.task(1, "b")  # attempt number 0 once more, while Spark takes the first one's result
    story.commit(1, first)
    assert story.kafka.visible == ["a", "b"]


class StaleDriverKafka(ModelDriverKafka):
    """A driver asks a leader that has been replaced without noticing."""

    def newest(self, query_id: str) -> CommitRecord | None:
        return None


def test_a_recorded_batch_is_committed_even_if_a_stale_broker_hides_its_record() -> None:
    story = Story()
    driver = story.driver(0, story.task(0, "a"))
    step_until(driver, lambda: story.kafka.commits)
    driver.kill()  # before it commits the parts
    again = story.task(0, "a", run="next")
    assert again.part is None
    with pytest.raises(StaleLogError, match="restart the query"):
        protocol.commit(StaleDriverKafka(story.kafka, go_on), 0, [again])
    story.commit(0, story.task(0, "a", run="third"))
    story.commit(1, story.task(1, "b", run="third"))
    assert story.kafka.visible == ["a", "b"]


def test_a_slot_outlives_a_batch_without_rows() -> None:
    story = Story()
    for batch_id, rows in enumerate((["a"], [], ["b"])):
        results = [story.task(batch_id, *rows), story.task(batch_id, "x", partition=1)]
        story.commit(batch_id, *results)
    assert len(story.kafka.coordinator.shard.entries()) == 2 + 1


def test_a_batch_without_rows_leaves_no_trace() -> None:
    story = Story()
    story.commit(0, story.task(0))
    story.commit(1)
    assert (story.kafka.commits, story.kafka.coordinator.log) == ({}, [])


def test_a_checkpoint_that_was_set_back_is_refused() -> None:
    story = Story()
    for batch_id in range(2):
        story.commit(batch_id, story.task(batch_id, "a"))
    with pytest.raises(OldCheckpointError, match="batch 1 of query"):
        story.task(0, "a", run="next")
    blind = story.task(0, "a", run="next", face=BlindTaskKafka)
    with pytest.raises(OldCheckpointError, match="checkpointLocation"):
        story.commit(0, blind)


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_failed_batch_is_aborted_unless_it_is_recorded(is_recorded: bool) -> None:
    story = Story()
    result = story.task(0, "a")
    driver = story.driver(0, result)
    if is_recorded:
        step_until(driver, lambda: story.kafka.commits)
    driver.kill()
    protocol.abort(ModelDriverKafka(story.kafka, go_on), 0, [result])
    assert bool(story.open) is is_recorded
    story.commit(0, story.task(0, "a", run="next"))
    assert (story.kafka.visible, story.open) == (["a"], [])


def test_a_recorded_transaction_that_timed_out_is_reported() -> None:
    story = Story(allows_two_phases=False)
    results = [story.task(0, "a"), story.task(0, "b", partition=1)]
    driver = story.driver(0, *results)
    step_until(driver, lambda: story.kafka.commits)
    driver.kill()
    story.kafka.pass_time(2 * TIMEOUT_MS / 1000)
    again = story.task(0, "a", run="next")
    for _ in range(2):
        with pytest.raises(LostTransactionError, match="2 of its transactions"):
            story.commit(0, again)
    story.commit(0, again, fail_on_data_loss=False)
    story.commit(1, story.task(1, "c", run="next"))
    assert story.kafka.visible == ["c"]


def test_transactions_with_two_phases_do_not_time_out() -> None:
    story = Story()
    driver = story.driver(0, story.task(0, "a"))
    step_until(driver, lambda: story.kafka.commits)
    driver.kill()
    story.kafka.pass_time(30 * 86_400)
    story.commit(0, story.task(0, "a", run="next"))
    assert story.kafka.visible == ["a"]
