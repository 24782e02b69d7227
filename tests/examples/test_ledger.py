"""The demo's comparison: it finds what it is there to find."""

import pytest

from examples.demo.ledger import Ledger, Verdict, row_of

SENT = [(b"UA", b"0"), (b"AA", b"1"), (b"UA", b"2"), (b"AA", b"3")]


def verdict_of(received: list[int], acknowledged: tuple[int, ...] = (0, 1, 2, 3)) -> Verdict:
    ledger = Ledger(SENT)
    for number in acknowledged:
        ledger.acknowledge(number)
    for number in received:
        ledger.receive(number, *SENT[number])
    return ledger.verdict()


def test_all_there_once_and_in_order_is_good() -> None:
    verdict = verdict_of([0, 1, 2, 3])
    assert verdict == Verdict(4, 4, 0, 0, 0, 0, 0)
    assert verdict.is_good


def test_the_order_of_different_keys_does_not_matter() -> None:
    assert verdict_of([1, 3, 0, 2]).is_good


@pytest.mark.parametrize(
    ("received", "wrong"),
    [
        ([0, 1, 2], {"lost": 1}),
        ([], {"lost": 4}),
        ([0, 1, 2, 3, 3, 3], {"duplicated": 2}),
        ([2, 1, 0, 3], {"out_of_order": 1}),
        ([0, 1, 2, 3, 0], {"duplicated": 1}),
    ],
)
def test_what_is_wrong_is_counted(received: list[int], wrong: dict[str, int]) -> None:
    verdict = verdict_of(received)
    assert not verdict.is_good
    found = {
        name: getattr(verdict, name) for name in ("lost", "duplicated", "out_of_order", "strange")
    }
    assert {name: count for name, count in found.items() if count} == wrong


def test_what_was_not_acknowledged_may_be_missing_but_is_not_good() -> None:
    verdict = verdict_of([0, 1, 2], acknowledged=(0, 1, 2))
    assert (verdict.lost, verdict.unacknowledged) == (0, 1)
    assert not verdict.is_good


def test_an_acknowledgement_counts_once() -> None:
    assert verdict_of([0, 1, 2, 3], acknowledged=(0, 0, 1, 2, 3)).acknowledged == 4


@pytest.mark.parametrize(
    ("number", "key", "value"),
    [(7, b"UA", b"7"), (-1, b"UA", b"0"), (0, b"AA", b"0"), (0, b"UA", None), (0, None, b"0")],
)
def test_a_stranger_is_noticed(number: int, key: bytes | None, value: bytes | None) -> None:
    ledger = Ledger(SENT)
    ledger.receive(number, key, value)
    assert ledger.verdict().strange == 1


@pytest.mark.parametrize(
    ("document", "row"),
    [(b'{"row":17,"year":2013}', 17), (b"", -1), (None, -1), (b'{"row":x,', -1), (b"{}", -1)],
)
def test_the_row_stands_at_the_beginning(document: bytes | None, row: int) -> None:
    assert row_of(document) == row
