"""Has the coordinator confirm the transaction of a Produce request (KIP-890)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import produce
from ...protocol.records import CorruptBatchError, parse_batch_header
from ..coordinators.transactions import Confirmation
from ..replicas.partition import Partition, PartitionError
from ..system.pace import Pace
from .transaction_errors import append_error

if TYPE_CHECKING:
    from ..broker import Broker

_ABORTABLE_FIRST = 11
_ADDS_FIRST = 12
_TOPIC_IDS_FIRST = 13


async def confirm_transaction(broker: Broker, version: int, request: produce.Request) -> ErrorCode:
    """Have a transaction confirmed for the partitions to which this is its first append.

    Returns:
        The error for partitions where the append still finds the transaction unconfirmed: the
        coordinator's error or, if it did confirm, a retriable one, because a marker was written in
        between. Other errors of the request are left to the append.
    """
    assert request.transactional_id is not None
    begins: dict[tuple[int, int], list[Partition]] = {}
    pace = Pace(broker.clock.monotonic)
    async for topic in pace.each(request.topic_data):
        async for asked in pace.each(topic.partition_data):
            if not asked.records:
                continue
            try:
                header = parse_batch_header(asked.records)  # type: ignore[arg-type]  # decoded records are a memoryview
                name = broker.index.topic_name(
                    topic.name, topic.topic_id, version >= _TOPIC_IDS_FIRST
                )
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
