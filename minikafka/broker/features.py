"""The cluster's features (KIP-584): what clients look for before they use it, at levels.

The only one is ``transaction.version``: 2 lets clients end an epoch with every transaction
(KIP-890). Its level is fixed: there is no older minikafka in the cluster to wait for.
"""

from __future__ import annotations

from typing import NamedTuple


class Feature(NamedTuple):
    """A feature.

    Attributes:
        lowest: the lowest level that is understood.
        highest: the highest one.
        level: the one that is in force.
    """

    lowest: int
    highest: int
    level: int


FEATURES = {"transaction.version": Feature(lowest=0, highest=2, level=2)}
