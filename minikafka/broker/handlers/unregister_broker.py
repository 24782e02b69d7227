"""UnregisterBroker 0: remove the registration of a broker that will not come back (KIP-631).

As in Kafka, replicas stay assigned to it; move them first with AlterPartitionReassignments. A
running broker registers again by itself. The only broker of a cluster cannot be unregistered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.brokers import unregister_broker
from ...protocol.errors import ErrorCode
from ...protocol.messages import unregister_broker as unregister_broker_api
from ..quorum.change_error import ChangeError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: unregister_broker_api.Request
) -> unregister_broker_api.Response:
    del context
    if broker.node.is_alone and request.broker_id == broker.node_id:
        return unregister_broker_api.Response(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"broker {broker.node_id} is the only node of this cluster",
        )
    try:
        refusal = await broker.controller.change(
            lambda: unregister_broker(
                broker.image, request.broker_id, broker.settings.replication_rules()
            )
        )
    except ChangeError as error:
        return unregister_broker_api.Response(
            error_code=error.error_code, error_message=error.message
        )
    if refusal is not None:
        return unregister_broker_api.Response(
            error_code=refusal.error_code, error_message=refusal.message
        )
    return unregister_broker_api.Response(error_code=ErrorCode.NONE, error_message=None)
