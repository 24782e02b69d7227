"""The cluster's features (KIP-584), whose levels clients check before they use them.

``transaction.version`` 2: every transaction has an epoch of its own (KIP-890). ``group.version`` 1:
consumer groups (KIP-848). ``share.version`` 2: share groups (KIP-932) and their dead letters
(KIP-1191). ``streams.version`` 1: streams groups (KIP-1071). Their levels are fixed, because every
version of minikafka supports them. ``kraft.version`` is 0 while the voters of the metadata quorum
are configuration, and 1 when the log records them (KIP-853).
"""

from __future__ import annotations

from typing import NamedTuple


class Feature(NamedTuple):
    lowest: int
    highest: int
    level: int


FEATURES = {
    "transaction.version": Feature(lowest=0, highest=2, level=2),
    "group.version": Feature(lowest=0, highest=1, level=1),
    "share.version": Feature(lowest=0, highest=2, level=2),
    "streams.version": Feature(lowest=0, highest=1, level=1),
    "kraft.version": Feature(lowest=0, highest=1, level=0),
}
