"""Which partitions of a Produce request have to be confirmed by the transaction's coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.errors import ErrorCode
from ..protocol.messages.produce import ProduceRequest
from ..protocol.records import CorruptBatchError, parse_batch_header
from .partition import Partition, PartitionError
from .transaction_errors import append_error
from .transactions import Confirmation

if TYPE_CHECKING:
    from .broker import Broker

_ABORTABLE_FIRST = 11
_ADDS_FIRST = 12
_TOPIC_IDS_FIRST = 13


async def confirm_transaction(broker: Broker, version: int, request: ProduceRequest) -> ErrorCode:
    """Have a transaction confirmed for the partitions that it begins in with this request.

    Returns:
        What to answer where the append finds the transaction unconfirmed all the same: the
        coordinator's refusal; or, when it has said yes, that the producer should try again, for a
        marker came in between. What else is wrong with the request is for others to say.
    """
    assert request.transactional_id is not None
    begins: dict[tuple[int, int], list[Partition]] = {}
    for topic in request.topic_data:
        for asked in topic.partition_data:
            if not asked.records:
                continue
            try:
                header = parse_batch_header(asked.records)  # type: ignore[arg-type]  # decoded records are a memoryview
                name = broker.topic_name(topic.name, topic.topic_id, version >= _TOPIC_IDS_FIRST)
                partition = broker.partition(name, asked.index)
            except (CorruptBatchError, PartitionError):
                continue
            if header.is_transactional and header.producer_id >= 0:
                producer = (header.producer_id, header.producer_epoch)
                begins.setdefault(producer, []).append(partition)
                partition.log.verify_transaction(*producer, header.base_sequence)
    if not begins:
        return ErrorCode.NONE
    for (producer_id, producer_epoch), partitions in begins.items():
        confirmation = Confirmation(
            request.transactional_id, producer_id, producer_epoch, adds=version >= _ADDS_FIRST
        )
        code = await broker.transactions.confirm(confirmation, partitions)
        if code is not ErrorCode.NONE:
            return append_error(code, knows_abortable=version >= _ABORTABLE_FIRST)
    return ErrorCode.NOT_ENOUGH_REPLICAS
