"""InitProducerId 0-6: a producer id and epoch, for idempotence or transactions (KIP-98, KIP-360).

Without a transactional id every request gets a new producer id with epoch 0, even if it has an old
id and epoch (version 3), because there is nothing to fence. With one, the coordinator decides: it
aborts the open transaction of an older producer, and fences that. A producer id without an epoch,
or an epoch without an id, is INVALID_REQUEST. Version 6 can keep a prepared transaction open
(KIP-939) if ``transaction.two.phase.commit.enable`` allows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...coordinator.transaction import InitProducer
from ...protocol.errors import ErrorCode
from ...protocol.messages import init_producer_id
from ..quorum.change_error import ChangeError
from ..replicas.partition import PartitionError
from .transaction_errors import fenced_error

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_NONE = -1
_FENCED_FIRST = 4


async def handle(
    broker: Broker, context: RequestContext, request: init_producer_id.Request
) -> init_producer_id.Response:
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return await _begin(broker, context.api_version, request.transactional_id, request)
    try:
        producer_id = await broker.producer_ids.next()
    except ChangeError as error:
        return _refused(ErrorCode(error.error_code))
    return init_producer_id.Response(
        error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0
    )


async def _begin(
    broker: Broker, version: int, transactional_id: str, request: init_producer_id.Request
) -> init_producer_id.Response:
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
    return init_producer_id.Response(
        error_code=ErrorCode.NONE,
        producer_id=reply.producer_id,
        producer_epoch=reply.producer_epoch,
        ongoing_txn_producer_id=reply.ongoing_producer_id,
        ongoing_txn_producer_epoch=reply.ongoing_producer_epoch,
    )


def _refused(code: ErrorCode) -> init_producer_id.Response:
    return init_producer_id.Response(error_code=code, producer_id=_NONE, producer_epoch=_NONE)
