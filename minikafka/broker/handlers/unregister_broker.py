"""UnregisterBroker 0: forget a broker that will not come back (KIP-631).

Its replicas stay assigned to it, as in Kafka; move them with AlterPartitionReassignments before. A
broker that is unregistered while it runs registers again by itself; one that is its whole cluster
cannot be unregistered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.brokers import unregister_broker
from ...protocol.errors import ErrorCode
from ...protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ..change_error import ChangeError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Forget it."""
    del context
    if broker.is_alone and request.broker_id == broker.node_id:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"broker {broker.node_id} is the whole cluster, and it runs",
        )
    try:
        refusal = await broker.change(
            lambda: unregister_broker(broker.image, request.broker_id, broker.replication_rules())
        )
    except ChangeError as error:
        return UnregisterBrokerResponse(error_code=error.error_code, error_message=error.message)
    if refusal is not None:
        return UnregisterBrokerResponse(
            error_code=refusal.error_code, error_message=refusal.message
        )
    return UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message=None)
