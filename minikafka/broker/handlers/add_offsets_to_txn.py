"""AddOffsetsToTxn 0-4: a transaction is about to commit offsets of a group (KIP-98).

The group's partition of ``__consumer_offsets`` is added to the transaction. Clients with
transaction version 2 do not need this request (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...coordinator.transaction import AddPartitions
from ...protocol.errors import ErrorCode
from ...protocol.messages import add_offsets_to_txn
from ..coordinators.internal_topics import OFFSETS_TOPIC
from ..quorum.change_error import ChangeError
from ..replicas.partition import PartitionError
from .transaction_errors import fenced_error

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_FENCED_FIRST = 2


async def handle(
    broker: Broker, context: RequestContext, request: add_offsets_to_txn.Request
) -> add_offsets_to_txn.Response:
    try:
        if not request.transactional_id or not request.group_id:
            raise PartitionError(ErrorCode.INVALID_REQUEST)
        await broker.internal_topics.ensure(broker.groups.runtime.topic)
        place = (OFFSETS_TOPIC, broker.groups.runtime.partition_of(request.group_id))
        command = AddPartitions(
            request.transactional_id, request.producer_id, request.producer_epoch, (place,)
        )
        code = (await broker.transactions.ask(command)).error_code
    except PartitionError as error:
        code = error.error_code
    except ChangeError:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    known = context.api_version >= _FENCED_FIRST
    return add_offsets_to_txn.Response(error_code=fenced_error(code, knows_fenced=known))
