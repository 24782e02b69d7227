"""AddOffsetsToTxn 0-4: a transaction is about to commit offsets of a group (KIP-98).

The partition of ``__consumer_offsets`` that keeps the group is added to the transaction. Clients of
transaction version 2 need not ask (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...coordinator.transaction import AddPartitions
from ...protocol.errors import ErrorCode
from ...protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ..change_error import ChangeError
from ..groups import OFFSETS_TOPIC
from ..partition import PartitionError
from ..transaction_errors import fenced_error

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext

_FENCED_FIRST = 2


async def handle(
    broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    """Add the group's partition to the transaction."""
    try:
        if not request.transactional_id or not request.group_id:
            raise PartitionError(ErrorCode.INVALID_REQUEST)
        await broker.groups.ensure_topic()
        place = (OFFSETS_TOPIC, broker.groups.partition_of(request.group_id))
        command = AddPartitions(
            request.transactional_id, request.producer_id, request.producer_epoch, (place,)
        )
        code = (await broker.transactions.ask(command)).error_code
    except PartitionError as error:
        code = error.error_code
    except ChangeError:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    known = context.api_version >= _FENCED_FIRST
    return AddOffsetsToTxnResponse(error_code=fenced_error(code, knows_fenced=known))
