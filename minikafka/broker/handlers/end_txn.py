"""EndTxn 0-5: commit or abort a transaction (KIP-98).

Answered when the decision is committed, in the call that moves the high watermark; the markers
follow. From version 5 on every transaction has its own epoch, and the answer has the producer id
and epoch of the next one (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...coordinator.transaction import EndTransaction, TransactionReply
from ...protocol.errors import ErrorCode
from ...protocol.messages import end_txn
from ..replicas.partition import PartitionError
from .later_answer import LaterAnswer
from .transaction_errors import fenced_error

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_FENCED_FIRST = 2
_OWN_EPOCH_FIRST = 5


class _EndTxnAnswer(LaterAnswer):
    """Ready when the coordinator replies, which it always does."""

    __slots__ = ("_version",)

    def __init__(self, version: int) -> None:
        super().__init__()
        self._version = version

    def put(self, reply: TransactionReply) -> None:
        knows_fenced = self._version >= _FENCED_FIRST
        self.response = end_txn.Response(
            error_code=fenced_error(reply.error_code, knows_fenced=knows_fenced),
            producer_id=reply.producer_id,
            producer_epoch=reply.producer_epoch,
        )
        self.ready()

    def give_up(self) -> None:
        """The client has disconnected; the transaction ends anyway."""


async def handle(broker: Broker, context: RequestContext, request: end_txn.Request) -> LaterAnswer:
    version = context.api_version
    decided = _EndTxnAnswer(version)
    command = EndTransaction(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        2 if version >= _OWN_EPOCH_FIRST else 0,
    )
    try:
        if not request.transactional_id:
            raise PartitionError(ErrorCode.INVALID_REQUEST)
        broker.transactions.begin(command, decided)
    except PartitionError as error:
        decided.put(TransactionReply(error.error_code))
    return decided
