"""Both connectors return the same rows for the same options, or both fail."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from tests.faults.campaign import rounds, with_seed
from tests.spark.oracle.combinations import drawn
from tests.spark.oracle.library import OFFICIAL, OURS, Library, read

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]

COMBINATIONS = 3


@with_seed
def test_both_connectors_read_the_same(official: SparkSession, library: Library, seed: int) -> None:
    different: list[str] = []
    for number in range(rounds(COMBINATIONS)):
        options = drawn(random.Random(f"{seed} {number}"), library)
        theirs = read(official, OFFICIAL, library.bootstrap, options)
        ours = read(official, OURS, library.bootstrap, options)
        if theirs.rows != ours.rows:
            missing = [row for row in theirs.rows or () if row not in (ours.rows or ())]
            extra = [row for row in ours.rows or () if row not in (theirs.rows or ())]
            different.append(
                f"{number}: {options}\n  theirs: {theirs}\n  ours: {ours}\n"
                f"  only theirs: {missing[:2]}\n  only ours: {extra[:2]}"
            )
    assert not different, "\n".join(different)
