"""A bounded run of every fuzz target, and the corpus."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.mutation import INTERESTING, Edit, mutated, random_edits
from tests.fuzz.run import fuzz
from tests.fuzz.targets import CORPUS, TARGETS, beginnings, corpus_of

INPUTS = 3000
EDITS = st.lists(
    st.builds(
        Edit,
        place=st.integers(0, 4096),
        removed=st.integers(0, 16),
        inserted=st.sampled_from(INTERESTING) | st.binary(max_size=12),
    ),
    max_size=4,
)
BEGINNINGS = cache(beginnings)


@pytest.fixture(autouse=True)
def _no_warnings_of_damage() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def check_no_bug(name: str, content: bytes) -> None:
    """Raises only what the target may not raise."""
    target = TARGETS[name]
    try:
        target.parse(content)
    except target.allowed:
        return


def test_every_target_has_a_corpus_and_every_corpus_a_target() -> None:
    assert {path.stem for path in CORPUS.glob("*.txt")} == set(TARGETS)
    assert all(corpus_of(name) for name in TARGETS)


@pytest.mark.parametrize("name", ["messages", "batches", "internal", "stored"])
def test_valid_inputs_are_accepted(name: str) -> None:
    assert TARGETS[name].seeds()
    for content in TARGETS[name].seeds():
        TARGETS[name].parse(content)


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_is_refused_or_accepted_and_never_a_bug(name: str) -> None:
    for content in corpus_of(name):
        check_no_bug(name, content)


@pytest.mark.parametrize("name", TARGETS)
@settings(deadline=None)
@given(data=st.data())
def test_drawn_mutations_are_refused_or_accepted(name: str, data: st.DataObject) -> None:
    """What fails here is shortened by hypothesis."""
    content = data.draw(st.sampled_from(BEGINNINGS(name)))
    check_no_bug(name, mutated(content, data.draw(EDITS)))


@pytest.mark.parametrize("name", TARGETS)
def test_a_bounded_run_finds_nothing(name: str) -> None:
    found = fuzz(name, seconds=float("inf"), seed=1, inputs_max=INPUTS)
    assert not found.failures, str(found)
    assert found.inputs >= INPUTS
    assert 0 < found.accepted < found.inputs


def test_the_same_seed_makes_the_same_edits() -> None:
    from random import Random

    others = [b"abc", b"defg"]
    assert random_edits(Random(5), others) == random_edits(Random(5), others)
    assert mutated(b"abcdef", [Edit(2, 3, b"X"), Edit(0, 0, b"Y")]) == b"YabXf"
