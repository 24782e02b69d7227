"""Finds lost, duplicated and reordered records of producers that number their records.

If a producer numbers its records 0, 1, 2, …, a reader of the topic can check that none is missing.
This is a Spark job, so a topic may have any size: only sums leave the cluster.

    python -m pyspark_minikafka.audit --bootstrap HOST:PORT TOPIC…

or, with a DataFrame in hand,

    from pyspark_minikafka.audit import Scope, audited, numbered

    rows = audited(numbered(records, "header:producer", "json:$.number"), Scope.TOPIC)

The findings:

- *duplicated*: a further occurrence of a number. `Scope.TOPIC` looks at all partitions together,
  `Scope.PARTITION` at each on its own.
- *reordered*: a number whose first occurrence in a partition comes after a larger one of its
  producer in that partition.
- *lost*: a number that is missing between two others, or within the given bounds. A record that the
  producer gave up looks the same.
- *unnumbered*: a record without a producer or a number.
"""

from .counts import Expectation, Scope, audited
from .numbers import WrongPlace, numbered

__all__ = ["Expectation", "Scope", "WrongPlace", "audited", "numbered"]
