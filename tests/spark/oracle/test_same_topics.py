"""`subscribePattern` finds the same topics as Java's own regular expressions."""

from __future__ import annotations

import random
from typing import Any

from pyspark.sql import SparkSession

from pyspark_minikafka.topic_pattern import PatternError, topic_matcher
from tests.faults.campaign import rounds, with_seed
from tests.spark.oracle.patterns import NAMES, drawn_pattern

PATTERNS = 200


@with_seed
def test_a_pattern_finds_what_java_finds_or_is_refused(spark: SparkSession, seed: int) -> None:
    jvm: Any = spark.sparkContext._jvm  # pyright: ignore[reportPrivateUsage] # py4j's way to Java
    dice = random.Random(seed)
    accepted = 0
    for _ in range(rounds(PATTERNS)):
        pattern = drawn_pattern(dice)
        try:
            matches = topic_matcher(pattern)
        except PatternError:
            continue
        try:
            compiled = jvm.java.util.regex.Pattern.compile(pattern)
        except Exception:  # noqa: BLE001, S112 - py4j has no types
            continue  # malformed only in Java; no query has such a pattern
        theirs = [name for name in NAMES if compiled.matcher(name).find()]
        assert [name for name in NAMES if matches(name)] == theirs, pattern
        accepted += 1
    assert accepted > rounds(PATTERNS) // 3
