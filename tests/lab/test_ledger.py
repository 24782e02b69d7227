"""What is counted, and that each kind counts only what it is about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.lab.ledger import Counts, Fate, Ledger

VALUES = ["r0", "r1", "r2", "r3"]


def ledger(**parts: object) -> Ledger:
    """All of `VALUES` sent by one producer and acknowledged, and what `parts` say instead."""
    found = Ledger(
        sent=[("p", value) for value in VALUES],
        fates=dict.fromkeys(VALUES, Fate.TRUSTED),
        log=list(VALUES),
    )
    for name, value in parts.items():
        setattr(found, name, value)
    return found


def interesting(counts: Counts) -> dict[str, int]:
    """What is not zero, of what guarantees are about."""
    names = ("lost", "repeated", "reordered", "aborted_read", "torn", "vanished", "too_few")
    return {name: getattr(counts, name) for name in names if getattr(counts, name)}


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, {}),
        ({"log": ["r0", "r1", "r2"]}, {"lost": 1}),
        ({"log": ["r0", "r1", "r0", "r2", "r3", "r1"]}, {"repeated": 2}),
        ({"log": ["r0", "r2", "r1", "r3"]}, {"reordered": 1}),
        ({"log": ["r3", "r0", "r1", "r2"]}, {"reordered": 3}),
        ({"log": ["r0", "r1", "r2", "r0", "r3"]}, {"repeated": 1}),
        ({"read": ["r0", "r9"]}, {"vanished": 1}),
        ({"results": VALUES}, {}),
        ({"results": ["r0", "r1", "r3", "r3", "r3"]}, {"lost": 1, "repeated": 2}),
        ({"results": VALUES, "log": ["r0"]}, {}),
        ({"too_few": {"r1", "r2"}}, {"too_few": 2}),
    ],
)
def test_counts(parts: dict[str, object], expected: dict[str, int]) -> None:
    assert interesting(ledger(**parts).count()) == expected


def test_what_was_not_acknowledged_may_be_missing() -> None:
    fates = {"r0": Fate.TRUSTED, "r1": Fate.REFUSED, "r2": Fate.UNKNOWN}
    counts = ledger(fates=fates, log=["r0"]).count()
    assert interesting(counts) == {}
    assert (counts.sent, counts.trusted, counts.refused, counts.stored) == (4, 1, 1, 1)


def test_a_reader_of_an_aborted_transaction() -> None:
    fates = {"r0": Fate.TRUSTED, "r1": Fate.TRUSTED, "r2": Fate.REFUSED, "r3": Fate.REFUSED}
    transactions = [["r0", "r1"], ["r2", "r3"]]
    whole = ledger(fates=fates, log=["r0", "r1"], read=["r0", "r1"], transactions=transactions)
    assert interesting(whole.count()) == {}
    whole.read = ["r0", "r1", "r2", "r3"]
    assert interesting(whole.count()) == {"aborted_read": 2}
    whole.read = ["r0"]
    assert interesting(whole.count()) == {"torn": 1}
    whole.read = whole.log = ["r0", "r1", "r2", "r3"]  # the broker has forgotten that it aborted
    assert interesting(whole.count()) == {"aborted_read": 2}


def test_producers_do_not_order_each_other() -> None:
    both = Ledger(sent=[("a", "a0"), ("b", "b0"), ("a", "a1")], log=["b0", "a0", "a1"])
    assert both.count().reordered == 0


@given(st.lists(st.sampled_from(VALUES)))
def test_a_log_is_lost_repeated_or_in_order_by_definition(log: list[str]) -> None:
    counts = ledger(log=log).count()
    assert counts.lost == len(set(VALUES) - set(log))
    assert counts.repeated == len(log) - len(set(log))
    first = list(dict.fromkeys(log))
    assert (counts.reordered == 0) == (first == sorted(first))


def test_counts_add_up() -> None:
    assert Counts(sent=1, lost=2) + Counts(sent=3) == Counts(sent=4, lost=2)
