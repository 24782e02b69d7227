"""Reads ranges of offsets on blocking sockets: no trio, no threads, no group.

It is made for worker processes that get a piece of a topic to read and end when they have read it.
While the application works on one run of records, the next ones are on their way.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Self, Unpack

from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import Cluster, parse_bootstrap
from minikafka_client.core.fetched import FetchedRecords
from minikafka_client.core.fetcher import Fetcher
from minikafka_client.core.fetcher_messages import (
    Changed,
    Connect,
    Effect,
    Event,
    Fetched,
    FetcherConfig,
    NodeConnected,
    NodeFailed,
    RefreshMetadata,
    SendFetch,
)
from minikafka_client.core.partition_reader import PartitionReader, Phase
from minikafka_client.core.wire import Answer
from minikafka_client.errors import KafkaError, RequestTimeoutError, UnsendableRequestError
from minikafka_client.options import ConnectionConfig, ConnectionOptions
from minikafka_client.sync.network import BlockingNetwork
from minikafka_client.sync.stale_metadata import StaleMetadata
from minikafka_client.types import AutoOffsetReset, IsolationLevel, TopicPartition

FETCH_MAX_WAIT_MS: Final = 500


class Reader:
    """Iterate over it: it yields runs of records (`FetchedRecords`) until every range is read.

    Runs of several partitions take turns; those of one partition come in order.

    Args:
        bootstrap: ``"host:port"``, several with commas between, or a sequence of them.
        ranges: per partition, the first offset and the one after the last.
        isolation_level: READ_COMMITTED hides what aborted transactions wrote.
        partition_fetch_size_bytes_max: largest part of one partition in a response.
        prefetch_size_bytes_max: fetched and not yet handed out.
        check_crcs: verify every batch's CRC-32C when its records are decoded.
        patience_ms: give up when nothing has come for so long.
        connection: see `minikafka_client.options.ConnectionConfig`.

    Raises (while iterating):
        NoOffsetError: an offset of a range does not exist (any more).
        RequestTimeoutError: nothing came in ``patience_ms``.
        KafkaError: a broker refused.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        ranges: Mapping[TopicPartition, tuple[int, int]],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        partition_fetch_size_bytes_max: int = 4 * 1024 * 1024,
        prefetch_size_bytes_max: int = 16 * 1024 * 1024,
        check_crcs: bool = True,
        patience_ms: int = 120_000,
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        config = ConnectionConfig(**connection)
        self._network = BlockingNetwork(Cluster(parse_bootstrap(bootstrap)), config, random.random)
        retry = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, random.random)
        self._stale = StaleMetadata(self._network, retry)
        self._fetcher = Fetcher(
            FetcherConfig(
                fetch_min_bytes=1,
                fetch_max_wait_ms=FETCH_MAX_WAIT_MS,
                fetch_size_bytes_max=prefetch_size_bytes_max,
                partition_fetch_size_bytes_max=partition_fetch_size_bytes_max,
                prefetch_size_bytes_max=prefetch_size_bytes_max,
                isolation_level=isolation_level,
                auto_offset_reset=AutoOffsetReset.NONE,
                check_crcs=check_crcs,
            ),
            self._network.cluster,
            retry,
        )
        self._patience_s = patience_ms / 1000
        self._ends: dict[TopicPartition, int] = {}
        self._unreachable: list[int] = []
        for partition, (first, end) in ranges.items():
            if first < end:
                reader = PartitionReader(TopicPartition(*partition))
                reader.seek(first)
                self._fetcher.readers[reader.partition] = reader
                self._ends[reader.partition] = end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_details: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; leaving the block does it, too."""
        self._network.close()

    def __iter__(self) -> Iterator[FetchedRecords]:
        give_up_at = time.monotonic() + self._patience_s
        self._feed(Changed())
        while self._fetcher.readers:
            reader = self._fetcher.next_arrived()
            if reader is not None:
                run = self._take(reader)
                self._feed(Changed())
                if run.batch_positions:
                    yield run
                give_up_at = time.monotonic() + self._patience_s
                continue
            self._raise_failures()
            if time.monotonic() >= give_up_at:
                self._give_up()
            if self._stale.refresh_if_due():
                self._feed(Changed())
                continue
            if self._unreachable:
                unreachable, self._unreachable = self._unreachable, []
                for node in unreachable:
                    self._feed(NodeFailed(node))
                continue
            times = (give_up_at, self._fetcher.deadline(), self._stale.due_at)
            if not self._network.wait(min(each for each in times if each is not None)):
                self._feed(Changed())

    def _take(self, reader: PartitionReader) -> FetchedRecords:
        run = reader.fetched.popleft()
        reader.position = run.next_offset
        end = self._ends[reader.partition]
        if run.next_offset >= end:
            del self._fetcher.readers[reader.partition]
            return run.until(end)
        self._fetcher.resumed(reader)
        return run

    def _raise_failures(self) -> None:
        for reader in self._fetcher.readers.values():
            if reader.phase is Phase.FAILED and reader.error is not None:
                raise reader.error

    def _give_up(self) -> None:
        waiting = ", ".join(
            f"{partition.topic}-{partition.partition} at {reader.position} of "
            f"{self._ends[partition]}"
            for partition, reader in self._fetcher.readers.items()
        )
        why = f"; {self._stale.last_error}" if self._stale.last_error is not None else ""
        raise RequestTimeoutError(
            f"no records within patience_ms ({self._patience_s * 1000:.0f}): {waiting}{why}"
        )

    def _feed(self, event: Event) -> None:
        if self._network.is_closed:
            return  # closing answers what is on its way
        effects = self._fetcher.handle(event, time.monotonic())
        while effects:
            effects = self._run(effects)

    def _run(self, effects: list[Effect]) -> list[Effect]:
        """Carry out effects; returns those that follow from what happened at once."""
        more: list[Effect] = []
        for effect in effects:
            event: Event | None = None
            match effect:
                case Connect(node):
                    event = self._connect(node)
                case SendFetch():
                    event = self._send(effect)
                case RefreshMetadata(topics):
                    self._stale.want(topics)
            if event is not None:
                more += self._fetcher.handle(event, time.monotonic())
        return more

    def _connect(self, node: int) -> Event | None:
        try:
            self._network.connect(node)
        except KafkaError:
            # Told later: at once, it would be tried again before anybody asks who leads.
            self._unreachable.append(node)
            return None
        return NodeConnected(node)

    def _send(self, effect: SendFetch) -> Event | None:
        request_id = effect.request_id

        def on_answer(answer: Answer) -> None:
            self._feed(Fetched(request_id, answer))

        try:
            connection = self._network.connect(effect.node)
            version = connection.version_for(effect.request, 4, effect.version_max)
        except KafkaError as error:
            return Fetched(request_id, error)
        try:
            connection.submit(effect.request, version, on_answer)
        except UnsendableRequestError as error:
            return Fetched(request_id, error)
        except KafkaError:
            return None  # closing the connection has answered it
        return None
