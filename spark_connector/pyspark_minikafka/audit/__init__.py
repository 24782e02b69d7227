"""Which records of numbered producers are lost, duplicated or reordered: an audit by Spark.

A producer that numbers its records 0, 1, 2, … can be checked afterwards by anybody who reads the
topic. Here a Spark job does it, so a topic may be of any size: only sums leave the cluster.

    python -m pyspark_minikafka.audit --bootstrap HOST:PORT TOPIC…

or, with a DataFrame in hand,

    from pyspark_minikafka.audit import Scope, audited, numbered

    rows = audited(numbered(records, "header:producer", "json:$.number"), Scope.TOPIC)

What the words mean:

- *duplicated*: further appearances of a number that is there already. In `Scope.TOPIC` all
  partitions are looked at together, in `Scope.PARTITION` each is for itself.
- *reordered*: a number whose first appearance in a partition comes after a larger one of its
  producer in that partition.
- *lost*: a number between two that are there, or within the bounds that were given, that is not
  there. What a producer gave up, and never was acknowledged, looks the same.
- *unnumbered*: a record that names no producer or no number; nothing can be said about it.
"""

from .counting import Expectation, Scope, audited
from .numbering import WrongPlace, numbered

__all__ = ["Expectation", "Scope", "WrongPlace", "audited", "numbered"]
