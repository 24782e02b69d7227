"""The cluster's features (KIP-584), whose levels clients check before they use them.

``share.version`` 1 means that there are share groups (KIP-932); at ``transaction.version`` 2 every
transaction has an epoch of its own (KIP-890). The levels are fixed, because every version of
minikafka supports them.
"""

from __future__ import annotations

from typing import NamedTuple


class Feature(NamedTuple):
    lowest: int
    highest: int
    level: int


FEATURES = {
    "share.version": Feature(lowest=0, highest=1, level=1),
    "transaction.version": Feature(lowest=0, highest=2, level=2),
}
