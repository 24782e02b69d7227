"""A client with a transactional id: it asks until there is an answer that means something.

Version 2 is a client of KIP-890, whose every transaction has an epoch of its own. Version 0 is one
of before: it adds partitions itself, and keeps its epoch as long as all is well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

import trio

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    produce,
    txn_offset_commit,
)
from minikafka.protocol.records import encode_batch
from minikafka.protocol.schema import Request, Response
from minikafka.testing.simulation.network import HOST, Network, Note, pass_time
from minikafka.testing.simulation.node import WALL_MS_FIRST
from tests.kit.wire import produce_request
from tests.simulation.brokers.clients import TOPIC, Client, NoAnswerError
from tests.simulation.brokers.committed_reading import OUTPUT, CommittedReading

GROUP: Final = "copy"
TIMEOUT_MS: Final = 6_000
_PATIENCE_SECONDS: Final = 8.0
_STRAGGLERS: Final = 0.08
"""Of requests that come a second time, later."""
_STRAGGLER_SECONDS_MAX: Final = 8.0

_AGAIN: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
    }
)
_DOUBTFUL: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""The request may have been appended anyway, and stay in the log: a leader was deposed."""

_R = TypeVar("_R", bound=Response)
Find = Callable[[], Awaitable[int]]


class FencedError(Exception):
    """Another process has the transactional id, or nothing works: this one ends."""


class AbortError(Exception):
    """The transaction can only be aborted, and the epoch has to be raised."""


class TransactionalClient(CommittedReading):
    """See the module.

    Attributes:
        name: the transactional id.
        version: see the module.
        producer_id: of the current producer.
        epoch: likewise.
        has_doubts: some request was not answered, or not for certain: it may still take effect.
    """

    def __init__(
        self,
        host: str,
        name: str,
        version: int,
        seed: int,
        network: Network,
        note: Note,
        nodes: int,
        nursery: trio.Nursery,
    ) -> None:
        super().__init__(host, seed, network, note, nodes)
        self.name = name
        self.version = version
        self.producer_id, self.epoch = -1, -1
        self.has_doubts = False
        self._nursery = nursery
        self._sequences: dict[int, int] = {}
        self._nodes_of: dict[str, int] = {}

    # --- asking until there is an answer ---------------------------------------------------------

    async def insist(
        self,
        whom: str,
        find: Find,
        request: Request,
        version: int,
        kind: type[_R],
        code_of: Callable[[_R], int],
    ) -> tuple[ErrorCode, _R | None]:
        """Ask until the answer means something; (REQUEST_TIMED_OUT, None) when patience ends."""
        ends = trio.current_time() + _PATIENCE_SECONDS
        node_id = self._nodes_of.get(whom) or self.any_node()
        while True:
            if self.version >= 2 and self.dice.random() < _STRAGGLERS:
                self._nursery.start_soon(self._straggle, node_id, request, version, kind)
            try:
                answer = await self.ask(node_id, request, version, kind)
                code = ErrorCode(code_of(answer))
                if code not in _AGAIN:
                    self._nodes_of[whom] = node_id
                    return code, answer
                if code in _DOUBTFUL:
                    self.has_doubts = True
            except NoAnswerError:
                self.has_doubts = True
            if trio.current_time() > ends:
                self.has_doubts = True
                return ErrorCode.REQUEST_TIMED_OUT, None
            await self.back_off()
            with suppress(NoAnswerError):
                node_id = await find()

    async def _straggle(
        self, node_id: int, request: Request, version: int, kind: type[Response]
    ) -> None:
        """The same request once more, on its own connection, when everything may be over."""
        HOST.set(self.host)
        other = Client(self.host, 0, self._network, self.note, self._nodes)
        await pass_time(self.dice.uniform(0.0, _STRAGGLER_SECONDS_MAX))
        with suppress(NoAnswerError):
            await other.ask(node_id, request, version, kind)
        other.drop(node_id)

    async def _coordinator(self) -> int:
        return await self.coordinator(self.name, 1)

    async def find_group(self) -> int:
        return await self.coordinator(GROUP, 0)

    # --- requests ------------------------------------------------------------------------------

    async def begin(self, *, goes_on: bool) -> None:
        """Get a producer id and epoch; with `goes_on` as the producer that it is.

        Raises:
            FencedError: there is none for it.
        """
        request = init_producer_id.Request(
            transactional_id=self.name,
            transaction_timeout_ms=TIMEOUT_MS,
            producer_id=self.producer_id if goes_on else -1,
            producer_epoch=self.epoch if goes_on else -1,
        )
        code, answer = await self.insist(
            "coordinator",
            self._coordinator,
            request,
            5,
            init_producer_id.Response,
            lambda one: one.error_code,
        )
        if code is not ErrorCode.NONE or answer is None:
            raise FencedError(f"no producer id: {code.name}")
        self._take(answer.producer_id, answer.producer_epoch)
        self.has_doubts = False

    def _take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = producer_id, epoch
            self._sequences.clear()

    async def add(self, partition: int) -> None:
        """Add a partition of the output to the transaction (version 0).

        Raises:
            AbortError: it is not added.
        """
        request = add_partitions_to_txn.Request(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[add_partitions_to_txn.Topic(name=OUTPUT, partitions=[partition])],
        )
        code, _ = await self.insist(
            "coordinator",
            self._coordinator,
            request,
            3,
            add_partitions_to_txn.Response,
            lambda one: (
                one.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            ),
        )
        if code is not ErrorCode.NONE:
            raise AbortError(f"cannot add {OUTPUT}-{partition}: {code.name}")

    async def produce(self, partition: int, value: bytes) -> int:
        """Write a record to the output; returns its offset.

        Raises:
            AbortError: it is not written, or the outcome is unknown.
        """
        sequence = self._sequences.get(partition, 0)
        batch = encode_batch(
            [(None, value, (), WALL_MS_FIRST)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        request = produce_request(OUTPUT, bytes(batch), partition=partition, acks=-1)
        request.transactional_id = self.name
        request.timeout_ms = 2_000

        async def leader() -> int:
            return await self.leader(partition, OUTPUT)

        code, answer = await self.insist(
            f"{OUTPUT}-{partition}",
            leader,
            request,
            12 if self.version >= 2 else 10,
            produce.Response,
            lambda one: one.responses[0].partition_responses[0].error_code,
        )
        if code is not ErrorCode.NONE or answer is None:
            raise AbortError(f"cannot write to {OUTPUT}-{partition}: {code.name}")
        self._sequences[partition] = sequence + 1
        return answer.responses[0].partition_responses[0].base_offset

    async def send_offsets(self, partition: int, offset: int) -> None:
        """Commit in the transaction how far a partition of the input was read.

        Raises:
            AbortError: it is not committed, or the outcome is unknown.
        """
        if self.version < 2:
            added, _ = await self.insist(
                "coordinator",
                self._coordinator,
                add_offsets_to_txn.Request(
                    transactional_id=self.name,
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch,
                    group_id=GROUP,
                ),
                3,
                add_offsets_to_txn.Response,
                lambda one: one.error_code,
            )
            if added is not ErrorCode.NONE:
                raise AbortError(f"cannot add offsets: {added.name}")
        position = txn_offset_commit.RequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        request = txn_offset_commit.Request(
            transactional_id=self.name,
            group_id=GROUP,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[txn_offset_commit.RequestTopic(name=TOPIC, partitions=[position])],
        )
        code, _ = await self.insist(
            "group",
            self.find_group,
            request,
            5 if self.version >= 2 else 3,
            txn_offset_commit.Response,
            lambda one: one.topics[0].partitions[0].error_code,
        )
        if code is not ErrorCode.NONE:
            raise AbortError(f"cannot commit offsets: {code.name}")

    async def end(self, *, commits: bool) -> ErrorCode | None:
        """Ask for the end of the transaction.

        Returns:
            What the coordinator says; None if the outcome is unknown.
        """
        doubted, self.has_doubts = self.has_doubts, False
        request = end_txn.Request(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commits,
        )
        code, answer = await self.insist(
            "coordinator",
            self._coordinator,
            request,
            5 if self.version >= 2 else 3,
            end_txn.Response,
            lambda one: one.error_code,
        )
        was_asked_once, self.has_doubts = not self.has_doubts, self.has_doubts or doubted
        words = "commit" if commits else "abort"
        self.note(f"{self.host} {words} {self.producer_id}/{self.epoch}: {code.name}")
        if code is ErrorCode.NONE and answer is not None:
            if self.version >= 2:
                self._take(answer.producer_id, answer.producer_epoch)
            return code
        if code is ErrorCode.TRANSACTION_ABORTABLE:
            return code
        return code if was_asked_once else None
