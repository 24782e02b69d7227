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
    asks = _Asks(broker, version, request.transactional_id)
    topics = request.topic_data
    if len(topics) == 1 and len(topics[0].partition_data) == 1:
        asks.add(topics[0], topics[0].partition_data[0])  # almost every request
    else:
        pace = Pace(broker.clock.monotonic)
        async for topic in pace.each(topics):
            async for asked in pace.each(topic.partition_data):
                asks.add(topic, asked)
    for (producer_id, producer_epoch), partitions in asks.unconfirmed.items():
        confirmation = Confirmation(
            request.transactional_id, producer_id, producer_epoch, adds=version >= _ADDS_FIRST
        )
        code = await broker.transactions.confirm(confirmation, partitions)
        if code is not ErrorCode.NONE:
            return append_error(code, knows_abortable=version >= _ABORTABLE_FIRST)
    return ErrorCode.NOT_ENOUGH_REPLICAS if asks.are_transactional else ErrorCode.NONE


class _Asks:
    """What the coordinator is asked about one request.

    Attributes:
        unconfirmed: by producer id and epoch, the partitions in which its transaction is neither
            open nor confirmed.
        are_transactional: there are batches of transactions, whether or not they are in it.
    """

    __slots__ = ("_broker", "_transactional_id", "_version", "are_transactional", "unconfirmed")

    def __init__(self, broker: Broker, version: int, transactional_id: str) -> None:
        self._broker = broker
        self._transactional_id = transactional_id
        self._version = version
        self.unconfirmed: dict[tuple[int, int], list[Partition]] = {}
        self.are_transactional = False

    def add(self, topic: produce.TopicData, asked: produce.PartitionData) -> None:
        """Look at one partition's batch; what is wrong with it is left to the append."""
        if not asked.records:
            return
        broker, by_id = self._broker, self._version >= _TOPIC_IDS_FIRST
        try:
            header = parse_batch_header(asked.records)  # type: ignore[arg-type]  # decoded records are a memoryview
            name = broker.index.topic_name(topic.name, topic.topic_id, by_id)
            partition = broker.partition(name, asked.index)
        except (CorruptBatchError, PartitionError):
            return
        if not header.is_transactional or header.producer_id < 0:
            return
        self.are_transactional = True
        producer = (header.producer_id, header.producer_epoch)
        verification = partition.log.verify_transaction(*producer, header.base_sequence)
        if verification is None or verification.is_confirmed:
            return
        if verification.added_to == self._transactional_id:
            verification.is_confirmed = True
        else:
            self.unconfirmed.setdefault(producer, []).append(partition)
