"""A small history for each anomaly, and its twin without it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from minikafka.testing.history.anomalies import Anomaly
from minikafka.testing.history.checker import Report, check_history
from minikafka.testing.history.operations import (
    Assign,
    Crash,
    Event,
    Key,
    Operation,
    Outcome,
    Poll,
    Rebalance,
    Send,
    Subscribe,
    Value,
)

A: Key = ("a", 0)
B: Key = ("b", 0)


def op(
    process: str, *actions: Send | Poll, outcome: Outcome = Outcome.OK, at: float | None = None
) -> Operation:
    invoked = 0.0 if at is None else at
    completed = 0.0 if at is None else at + 0.5
    return Operation(process, outcome, actions, invoked, completed)


def sent(process: str, value: Value, offset: int | None, key: Key = A) -> Operation:
    return op(process, Send(key, value, offset))


def polled(process: str, *records: tuple[int, Value], key: Key = A) -> Operation:
    return op(process, Poll({key: records}))


def found(history: Sequence[Event], **options: bool) -> set[Anomaly]:
    return set(check(history, **options).broken)


def check(history: Sequence[Event], *, is_caught_up: bool = True) -> Report:
    timed = [
        event._replace(invoked=10 * n, completed=10 * n + 5)
        if isinstance(event, Operation) and event.completed == 0
        else event
        for n, event in enumerate(history)
    ]
    return check_history(timed, is_caught_up=is_caught_up)


THREE = [sent("p", "x", 0), sent("p", "y", 1), sent("p", "z", 2)]
ALL = [(0, "x"), (1, "y"), (2, "z")]
FAILED = op("p", Send(A, "bad", None), outcome=Outcome.FAIL)

HISTORIES: dict[Anomaly, tuple[list[Event], list[Event]]] = {
    Anomaly.INCONSISTENT_OFFSETS: (
        [*THREE, polled("c", *ALL), polled("d", (0, "x"), (1, "z"))],
        [*THREE, polled("c", *ALL), polled("d", (0, "x"), (1, "y"))],
    ),
    Anomaly.DUPLICATE: (
        [*THREE, polled("c", *ALL, (3, "y"))],
        [*THREE, sent("p", "y2", 3), polled("c", *ALL, (3, "y2"))],
    ),
    Anomaly.LOST_WRITE: (
        [*THREE, polled("c", ALL[0]), polled("d", ALL[2])],
        [*THREE, polled("c", ALL[0]), polled("d", ALL[2]), polled("e", *ALL)],
    ),
    Anomaly.UNSEEN: (
        [*THREE, polled("c", *ALL[:2])],
        [*THREE, polled("c", *ALL[:2]), polled("c", *ALL[2:])],
    ),
    Anomaly.ABORTED_READ: (
        [*THREE, FAILED, polled("c", *ALL, (3, "bad"))],
        [*THREE, FAILED, polled("c", *ALL)],
    ),
    Anomaly.UNWRITTEN_READ: (
        [*THREE, polled("c", *ALL, (3, "garbage"))],
        [*THREE, sent("q", "garbage", 3), polled("c", *ALL, (3, "garbage"))],
    ),
    Anomaly.PRECOMMITTED_READ: (
        [op("p", Send(A, "x", 0), Poll({A: [(0, "x")]})), polled("c", (0, "x"))],
        [op("p", Send(A, "x", 0)), op("p", Poll({A: [(0, "x")]}))],
    ),
    Anomaly.POLL_SKIP: (
        [*THREE, polled("c", ALL[0]), polled("c", ALL[2]), polled("d", *ALL)],
        [*THREE, polled("c", ALL[0]), Crash("c"), polled("c", ALL[2]), polled("d", *ALL)],
    ),
    Anomaly.NONMONOTONIC_POLL: (
        [*THREE, polled("c", *ALL), polled("c", ALL[2])],
        [*THREE, polled("c", *ALL), Assign("c", frozenset({A}), True), polled("c", ALL[2])],
    ),
    Anomaly.INTERNAL_POLL_SKIP: (
        [*THREE, op("c", Poll({A: ALL[:1]}), Poll({A: ALL[2:]})), polled("d", *ALL)],
        [*THREE, op("c", Poll({A: ALL[:1]}), Poll({A: ALL[1:]})), polled("d", *ALL)],
    ),
    Anomaly.INTERNAL_NONMONOTONIC_POLL: (
        [*THREE, polled("c", ALL[1], ALL[0], ALL[2])],
        [*THREE, polled("c", *ALL)],
    ),
    Anomaly.NONMONOTONIC_SEND: (
        [sent("p", "y", 1), sent("p", "x", 0), polled("c", *ALL[:2])],
        [sent("p", "y", 1), sent("q", "x", 0), polled("c", *ALL[:2])],
    ),
    Anomaly.INTERNAL_NONMONOTONIC_SEND: (
        [op("p", Send(A, "y", 1), Send(A, "x", 0)), polled("c", *ALL[:2])],
        [
            op("p", Send(A, "y", 1), Send(B, "x", 0)),
            op("c", Poll({A: [(1, "y")], B: [(0, "x")]})),
        ],
    ),
    Anomaly.CIRCULAR_INFORMATION_FLOW: (
        [
            op("p", Send(A, "x", 0), Poll({B: [(0, "y")]})),
            op("q", Send(B, "y", 0), Poll({A: [(0, "x")]})),
        ],
        [
            op("p", Send(A, "x", 0)),
            op("q", Send(B, "y", 0), Poll({A: [(0, "x")]})),
            op("p", Poll({B: [(0, "y")]})),
        ],
    ),
}


@pytest.mark.parametrize("anomaly", HISTORIES, ids=lambda anomaly: anomaly.value)
def test_an_anomaly_is_found_and_its_clean_twin_is_clean(anomaly: Anomaly) -> None:
    wrong, clean = HISTORIES[anomaly]
    assert anomaly in found(wrong)
    assert found(clean) == set()


def test_every_anomaly_has_a_history() -> None:
    assert set(Anomaly) - HISTORIES.keys() == {Anomaly.INTERNAL_SEND_SKIP, Anomaly.WRITE_CYCLE}


def test_records_of_others_between_those_of_a_transaction_are_allowed() -> None:
    between = op("p", Send(A, "x", 0), Send(A, "z", 2))
    report = check([between, sent("q", "y", 1), polled("c", *ALL)])
    assert report.is_good
    assert report.allowed == {Anomaly.INTERNAL_SEND_SKIP: 1, Anomaly.WRITE_CYCLE: 1}
    beside = op("p", Send(A, "x", 0), Send(A, "y", 1))
    assert check([beside, sent("q", "z", 2), polled("c", *ALL)]).allowed == {}


def test_writes_of_transactions_may_interleave() -> None:
    one = op("p", Send(A, 1, 0), Send(B, 2, 1))
    two = op("q", Send(A, 3, 1), Send(B, 4, 0))
    seen = [polled("c", (0, 1), (1, 3)), polled("c", (0, 4), (1, 2), key=B)]
    report = check([one, two, *seen])
    assert report.is_good
    assert report.allowed == {Anomaly.WRITE_CYCLE: 1}
    after = op("q", Send(A, 3, 1), Send(B, 4, 2))
    seen = [polled("c", (0, 1), (1, 3)), polled("c", (1, 2), (2, 4), key=B)]
    assert check([one, after, *seen]).allowed == {}


def test_a_cycle_that_needs_the_order_of_writes_is_allowed() -> None:
    # p has read q's write, and wrote before it.
    early = op("p", Poll({B: [(0, 2)]}), Send(A, 1, 0))
    late = op("q", Send(A, 3, 1), Send(B, 2, 0))
    report = check([early, late, polled("c", (0, 1), (1, 3)), polled("c", (0, 2), key=B)])
    assert report.is_good
    assert report.allowed == {Anomaly.CIRCULAR_INFORMATION_FLOW: 1}


def test_reading_ones_own_future_is_a_cycle_by_process_order() -> None:
    history = [
        polled("p", (0, "echo"), key=B),
        sent("p", "call", 0),
        op("q", Poll({A: [(0, "call")]}), Send(B, "echo", 0)),
    ]
    assert found(history) == {Anomaly.CIRCULAR_INFORMATION_FLOW}
    # An operation whose end was not seen may happen after the next one.
    unknown = op("p", Poll({B: [(0, "echo")]}), outcome=Outcome.INFO)
    assert found([unknown, *history[1:], polled("c", (0, "echo"), key=B)]) == set()


def test_overlapping_sends_of_a_process_are_unordered_for_cycles() -> None:
    call = op("p", Send(A, "call", 0), at=1)
    heard = op("p", Poll({B: [(0, "echo")]}), at=0.8)
    assert not call.invoked > heard.completed
    echo = op("q", Poll({A: [(0, "call")]}), Send(B, "echo", 0), at=2)
    assert found([heard, call, echo]) == set()
    later = call._replace(invoked=5.0, completed=5.5)
    assert found([heard, later, echo]) == {Anomaly.CIRCULAR_INFORMATION_FLOW}


def test_one_visible_write_proves_an_unknown_operation() -> None:
    unknown = op("p", Send(A, "x", None), Send(B, "y", None), outcome=Outcome.INFO)
    assert found([unknown]) == set()
    assert found([unknown, polled("c", (0, "x"))]) == {Anomaly.UNSEEN}
    assert found([unknown, polled("c", (0, "x")), polled("c", (4, "y"), key=B)]) == set()


def test_after_a_poll_of_unknown_outcome_reading_can_begin_anywhere() -> None:
    everything = polled("d", *ALL)
    unknown = op("c", Poll({}), outcome=Outcome.INFO)
    assert found([*THREE, everything, polled("c", ALL[0]), unknown, polled("c", ALL[2])]) == set()
    assert found([*THREE, everything, polled("c", ALL[2]), unknown, polled("c", ALL[0])]) == set()


def test_a_poll_may_jump_across_a_rebalance_and_only_there() -> None:
    begin: list[Event] = [*THREE, polled("d", *ALL), Subscribe("c"), polled("c", ALL[0])]
    jump = check([*begin, Rebalance("c"), polled("c", ALL[2])])
    assert jump.is_good
    assert jump.allowed == {Anomaly.POLL_SKIP: 1}
    back = check([*begin, Rebalance("c"), polled("c", *ALL), Rebalance("c"), polled("c", ALL[2])])
    assert back.is_good
    assert back.allowed == {Anomaly.NONMONOTONIC_POLL: 2}
    once = [*begin, Rebalance("c"), polled("c", ALL[0]), polled("c", ALL[2])]
    assert found(once) == {Anomaly.POLL_SKIP}


def test_an_assignment_keeps_the_position_of_keys_that_stay() -> None:
    begin: list[Event] = [*THREE, polled("d", *ALL), polled("c", ALL[0])]
    stays = Assign("c", frozenset({A, B}))
    leaves = Assign("c", frozenset({B}))
    assert found([*begin, stays, polled("c", ALL[2])]) == {Anomaly.POLL_SKIP}
    assert found([*begin, leaves, stays, polled("c", ALL[2])]) == set()


def test_gaps_in_offsets_are_not_gaps_in_what_was_read() -> None:
    history = [sent("p", "x", 0), sent("p", "y", 5), sent("p", "z", 9)]
    assert found([*history, polled("c", (0, "x")), polled("c", (5, "y"), (9, "z"))]) == set()


def test_without_a_last_look_nothing_is_missed_at_the_end() -> None:
    history = [*THREE, polled("c", *ALL[:2])]
    assert found(history, is_caught_up=False) == set()
    assert found([*THREE, polled("c", ALL[1])], is_caught_up=False) == {Anomaly.LOST_WRITE}


def test_a_write_without_an_offset_is_found_by_its_value() -> None:
    history = [sent("p", "x", None), sent("p", "y", None), polled("c", (0, "x"), (1, "y"))]
    assert found(history) == set()
    backwards = [sent("p", "y", None), sent("p", "x", None), polled("c", (0, "x"), (1, "y"))]
    assert found(backwards) == {Anomaly.NONMONOTONIC_SEND}
    assert found([sent("p", "x", None)]) == {Anomaly.UNSEEN}


def test_two_acknowledged_writes_at_one_offset_are_inconsistent() -> None:
    history = [sent("p", "x", 0), sent("q", "y", 0), polled("c", (0, "x"))]
    assert found(history) == {Anomaly.INCONSISTENT_OFFSETS, Anomaly.LOST_WRITE}
    elsewhere = [*history, polled("c", (1, "y"))]
    assert Anomaly.DUPLICATE in found(elsewhere)


def test_a_value_that_is_sent_twice_is_a_mistake_of_the_workload() -> None:
    with pytest.raises(ValueError, match="unique"):
        check([sent("p", "x", 0), sent("q", "x", 1)])


def test_anomalies_can_be_allowed_for_a_workload() -> None:
    history = [*THREE, polled("c", *ALL[:2])]
    report = check_history(history, allowed=[Anomaly.UNSEEN])
    assert report.is_good
    assert report.allowed == {Anomaly.UNSEEN: 1}


def test_a_report_can_be_read() -> None:
    text = str(check([*THREE, polled("c", *ALL[:2])]))
    assert "4 operations, 3 committed writes, 2 values read" in text
    assert "unseen a-0: 'z' at offset 2; readers came to 1 [events 2]" in text


def test_findings_are_counted_but_not_all_kept() -> None:
    history: list[Event] = [sent("p", n, n) for n in range(1000)]
    report = check([*history, polled("c", (0, 0))])
    assert report.broken == {Anomaly.UNSEEN: 999}
    assert 0 < len(report.findings) < 100


def test_a_long_cycle_is_shortened_in_the_report() -> None:
    keys: list[Key] = [("k", number) for number in range(20)]
    history = [
        op(
            f"p{number}",
            Send(key, number, 0),
            Poll({keys[(number + 1) % 20]: [(0, (number + 1) % 20)]}),
            at=0.5,
        )
        for number, key in enumerate(keys)
    ]
    report = check(history)
    assert report.broken == {Anomaly.CIRCULAR_INFORMATION_FLOW: 1}
    assert "and 12 more" in str(report)
