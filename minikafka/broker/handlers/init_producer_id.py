"""InitProducerId 0-6: a producer id and epoch, for idempotence or transactions (KIP-98, KIP-360).

Without a transactional id every request gets a new producer id with epoch 0, also one that brings
its old id and epoch (version 3): there is nothing to fence. With one, the coordinator decides: it
ends what an older producer has left open, and fences it. An old id without an epoch, or an epoch
without an id, is INVALID_REQUEST. Version 6 may keep a prepared transaction open (KIP-939) where
``transaction.two.phase.commit.enable`` allows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...coordinator.transaction import InitProducer
from ...protocol.errors import ErrorCode
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ..change_error import ChangeError
from ..partition import PartitionError
from ..transaction_errors import fenced_error

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext

_NONE = -1
_FENCED_FIRST = 4


async def handle(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Hand out a producer id, or let a transactional producer begin."""
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return await _begin(broker, context.api_version, request.transactional_id, request)
    try:
        producer_id = await broker.next_producer_id()
    except ChangeError as error:
        return _refused(ErrorCode(error.error_code))
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0
    )


async def _begin(
    broker: Broker, version: int, transactional_id: str, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    if not transactional_id:
        return _refused(ErrorCode.INVALID_REQUEST)
    command = InitProducer(
        transactional_id,
        request.transaction_timeout_ms,
        request.producer_id,
        request.producer_epoch,
        request.enable2_pc,
        request.keep_prepared_txn,
    )
    try:
        reply = await broker.transactions.ask(command)
    except PartitionError as error:
        return _refused(error.error_code)
    if reply.error_code is not ErrorCode.NONE:
        return _refused(fenced_error(reply.error_code, knows_fenced=version >= _FENCED_FIRST))
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE,
        producer_id=reply.producer_id,
        producer_epoch=reply.producer_epoch,
        ongoing_txn_producer_id=reply.ongoing_producer_id,
        ongoing_txn_producer_epoch=reply.ongoing_producer_epoch,
    )


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)
