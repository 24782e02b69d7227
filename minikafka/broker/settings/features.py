"""The cluster's features (KIP-584), whose levels clients check before they use them.

The only one is ``transaction.version``: at level 2 every transaction has an epoch of its own
(KIP-890). The level is fixed, because every version of minikafka supports it.
"""

from __future__ import annotations

from typing import NamedTuple


class Feature(NamedTuple):
    lowest: int
    highest: int
    level: int


FEATURES = {"transaction.version": Feature(lowest=0, highest=2, level=2)}
