"""The metadata image of a node, and how far along the quorum's log it has come.

Every entry of that log is one decision: the records of one change, replayed together. `apply` is
called for each committed entry in order, on every node; when it returns, the image has it, and so
have its followers (the replicas that are to be opened or closed). A change returns only then, so
that a client that is answered with success finds what it created.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice

import trio

from ...metadata.image import MetadataImage
from ...metadata.records import MetadataRecord, RemoveTopicRecord, decode_decision, encode_decision

RESOURCE_CLUSTER = 0
"""Settings of the cluster itself; no client sees them."""
CLUSTER_ID_SETTING = "cluster.id"
SNAPSHOT_PIECE_RECORDS = 1000

Follow = Callable[[Sequence[MetadataRecord]], Awaitable[None]]
"""Called with the records of a decision, when the image has replayed them."""


class MetadataStore:
    """The image and where it stands.

    Attributes:
        image: what all decisions add up to; replaced when a snapshot of another node is loaded.
        cluster_id: fixed when the cluster was made; empty until this node knows it.
        removed_topic_ids: topics that the log, as far as it was read here, saw removed; collected
            until `forget_removed`.
        may_have_lost: the log was new or cut, so it may have held more once.
    """

    def __init__(self, cluster_id: str = "") -> None:
        self.cluster_id = cluster_id
        self.image = MetadataImage()
        self.removed_topic_ids: set[bytes] = set()
        self._remembers_removed = True
        self.may_have_lost = False
        self.follow: Follow = _follow_nothing
        self.follow_replaced: Callable[[], Awaitable[None]] = _follow_no_snapshot
        self.write_restored: Callable[[bytes], None] = _write_nowhere
        self._moved = trio.Event()

    # --- at start ------------------------------------------------------------------------------

    def replay_stored(self, payloads: Iterable[bytes]) -> None:
        """Take what this node knows to be committed when it starts.

        Raises:
            MetadataLogError: something cannot be read.
        """
        for payload in payloads:
            self._replay(decode_decision(payload))

    def restore(self, records: Sequence[MetadataRecord]) -> None:
        """Write and replay records that the log has lost; before `Quorum.run`, may block.

        Raises:
            ValueError: this node is not alone.
            OSError: the disk failed.
        """
        if records:
            self.write_restored(encode_decision(records))
            self._replay(records)

    def forget_removed(self) -> None:
        """The logs on the disk were matched with the image: what was removed is of no interest."""
        self._remembers_removed = False
        self.removed_topic_ids = set()

    # --- following the log ---------------------------------------------------------------------

    async def apply(self, index: int, payload: bytes) -> None:
        """Replay a committed entry, and let the followers act on it."""
        del index
        records = decode_decision(payload)
        self._replay(records)
        await self.follow(records)
        self._tell()

    def _replay(self, records: Sequence[MetadataRecord]) -> None:
        for record in records:
            if self._remembers_removed and isinstance(record, RemoveTopicRecord):
                self.removed_topic_ids.add(record.topic_id)
            self.image.replay(record)
        if not self.cluster_id:
            self.cluster_id = self.recorded_cluster_id

    @property
    def recorded_cluster_id(self) -> str:
        """The cluster id in the log, empty when it has none."""
        return self.image.settings.get((RESOURCE_CLUSTER, ""), {}).get(CLUSTER_ID_SETTING, "")

    def _tell(self) -> None:
        moved, self._moved = self._moved, trio.Event()
        moved.set()

    async def next_change(self) -> None:
        """Wait until the next entry is applied here, followers included."""
        await self._moved.wait()

    # --- snapshots -----------------------------------------------------------------------------

    def make_snapshot(self) -> list[bytes]:
        """Payloads that, replayed on nothing, give the image."""
        records = self.image.records()
        payloads: list[bytes] = []
        while piece := list(islice(records, SNAPSHOT_PIECE_RECORDS)):
            payloads.append(encode_decision(piece))
        return payloads

    async def load_snapshot(self, index: int, payloads: Sequence[bytes]) -> None:
        """Replace the image by another node's snapshot.

        Raises:
            MetadataLogError: it cannot be read.
        """
        del index
        image = MetadataImage()
        for payload in payloads:
            for record in decode_decision(payload):
                image.replay(record)
        self.image = image
        self.cluster_id = self.cluster_id or self.recorded_cluster_id
        await self.follow_replaced()
        self._tell()


def _write_nowhere(payload: bytes) -> None:
    """Before there is a quorum."""
    del payload


async def _follow_nothing(records: Sequence[MetadataRecord]) -> None:
    """Before there are followers."""
    del records


async def _follow_no_snapshot() -> None:
    """Before there are followers."""
