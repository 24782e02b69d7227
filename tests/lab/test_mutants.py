"""Every seeded defect is noticed by the lab, or it says beside it what notices it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka.lab.claims import CLAIMS
from tests.lab.mutants import ELSEWHERE, OTHERS, is_still_red, named, recorded, table, written_table

REDS = recorded()
PROJECT = Path(__file__).parents[2]
SEEDS = 10
"""A simulation that changes may need another seed, but not many."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def test_every_mutant_has_an_entry() -> None:
    assert REDS.keys() | ELSEWHERE.keys() == named().keys()
    assert not REDS.keys() & ELSEWHERE.keys()


def test_what_notices_the_others_exists() -> None:
    reasons = [*ELSEWHERE.values(), *(reason for _, reason in OTHERS.values())]
    assert [one.caught_by for one in reasons if not (PROJECT / one.caught_by).is_file()] == []


def test_the_table_says_what_is_recorded() -> None:
    assert written_table() == table(), "python -m tests.lab.mutants --table writes it again"


@pytest.mark.parametrize("name", REDS)
def test_the_lab_turns_red(name: str) -> None:
    assert REDS[name].claim in {claim.id for claim in CLAIMS}
    assert is_still_red(named()[name], REDS[name], SEEDS)
