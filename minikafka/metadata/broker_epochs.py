"""Whether a request comes from the process that is registered as a broker (KIP-631)."""

from __future__ import annotations

from ..protocol.errors import ErrorCode
from .decision import Refusal
from .image import MetadataImage


def check_broker(image: MetadataImage, broker_id: int, broker_epoch: int) -> Refusal | None:
    """Refuse what does not come from the registered incarnation of a broker.

    Returns:
        BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH, or None when it does.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        return Refusal(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker {broker_id} is not registered; it has to register first.",
        )
    if broker.broker_epoch != broker_epoch:
        return Refusal(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Broker {broker_id} speaks with epoch {broker_epoch}, but its registration has "
            f"{broker.broker_epoch}; another process registered with its id, or it has to "
            "register again.",
        )
    return None
