"""Blocks of producer ids (Kafka's AllocateProducerIds, KIP-730)."""

from __future__ import annotations

from .brokers import check_broker
from .decision import Decision, Refusal
from .image import MetadataImage
from .records import ProducerIdsRecord

PRODUCER_ID_BLOCK_SIZE = 1000


def allocate_producer_ids(image: MetadataImage, broker_id: int) -> Decision[range]:
    """Allocate a block of producer ids to a broker whose identity is certain."""
    first = image.next_producer_id
    block = range(first, first + PRODUCER_ID_BLOCK_SIZE)
    return Decision([ProducerIdsRecord(broker_id, block.stop)], block)


def allocate_producer_ids_checked(
    image: MetadataImage, broker_id: int, broker_epoch: int
) -> Decision[range | Refusal]:
    """Allocate a block of producer ids to a broker that asks over the network.

    Returns:
        The block, or BROKER_ID_NOT_REGISTERED or STALE_BROKER_EPOCH.
    """
    refusal = check_broker(image, broker_id, broker_epoch)
    if refusal is not None:
        return Decision([], refusal)
    records, block = allocate_producer_ids(image, broker_id)
    return Decision(records, block)
