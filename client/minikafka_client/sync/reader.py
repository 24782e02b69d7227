"""Reads ranges of offsets on blocking sockets: no trio, no threads, no group.

It is made for worker processes that read one piece of a topic and then exit. While the application
processes one run of records, the next ones are being fetched.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Self, Unpack

from minikafka_client.core import fetcher as machine
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import Cluster, parse_bootstrap
from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.core.partition_reader import PartitionReader, Phase
from minikafka_client.core.wire import Answer
from minikafka_client.errors import KafkaError, RequestTimeoutError
from minikafka_client.options import ConnectionConfig, ConnectionOptions, connection_config
from minikafka_client.signatures import with_options
from minikafka_client.sync.network import BlockingNetwork, StaleMetadata
from minikafka_client.types import (
    AutoOffsetReset,
    IsolationLevel,
    IsolationLevelName,
    TopicPartition,
)

FETCH_MAX_WAIT_MS: Final = 500


class Reader:
    """Iterate over it: it yields runs of records (`ConsumedBatch`) until every range is read.

    Partitions take turns; the runs of one partition arrive in order.

    Args:
        bootstrap_servers: ``"host:port"``, several with commas between, or a sequence of them.
        ranges: first offset (inclusive) and end offset (exclusive) per partition.
        isolation_level: READ_COMMITTED hides records of aborted transactions.
        max_partition_fetch_bytes: the most that a response returns of one partition.
        prefetch_size_bytes_max: the most that is fetched ahead.
        check_crcs: verify the CRC-32C of every batch when its records are decoded.
        patience_ms: give up when nothing has arrived for this long.
        connection: see `minikafka_client.options.ConnectionConfig`.

    Raises (while iterating):
        NoOffsetError: an offset of a range does not, or no longer, exist.
        RequestTimeoutError: nothing arrived within ``patience_ms``.
        KafkaError: a broker returned an error.
    """

    @with_options(ConnectionConfig)
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        ranges: Mapping[TopicPartition, tuple[int, int]],
        *,
        isolation_level: IsolationLevel | IsolationLevelName = IsolationLevel.READ_UNCOMMITTED,
        max_partition_fetch_bytes: int = 4 * 1024 * 1024,
        prefetch_size_bytes_max: int = 16 * 1024 * 1024,
        check_crcs: bool = True,
        patience_ms: int = 120_000,
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        config = connection_config(connection, type(self).__name__)
        self._network = BlockingNetwork(
            Cluster(parse_bootstrap(bootstrap_servers)), config, random.random
        )
        retry = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, random.random)
        self._stale = StaleMetadata(self._network, retry)
        self._fetcher = machine.Fetcher(
            machine.FetcherConfig(
                fetch_min_bytes=1,
                fetch_max_wait_ms=FETCH_MAX_WAIT_MS,
                fetch_max_bytes=prefetch_size_bytes_max,
                max_partition_fetch_bytes=max_partition_fetch_bytes,
                prefetch_size_bytes_max=prefetch_size_bytes_max,
                isolation_level=IsolationLevel.of(isolation_level),
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
        """Close all connections; leaving the block does, too."""
        self._network.close()

    def __iter__(self) -> Iterator[ConsumedBatch]:
        give_up_at = time.monotonic() + self._patience_s
        self._feed(machine.Changed())
        while self._fetcher.readers:
            reader = self._fetcher.next_arrived()
            if reader is not None:
                run = self._take(reader)
                self._feed(machine.Changed())
                if run.batch_positions:
                    yield run
                give_up_at = time.monotonic() + self._patience_s
                continue
            self._raise_failures()
            if time.monotonic() >= give_up_at:
                self._give_up()
            if self._stale.refresh_if_due():
                self._feed(machine.Changed())
                continue
            if self._unreachable:
                unreachable, self._unreachable = self._unreachable, []
                for node in unreachable:
                    self._feed(machine.NodeFailed(node))
                continue
            times = (give_up_at, self._fetcher.deadline(), self._stale.due_at)
            if not self._network.wait(min(each for each in times if each is not None)):
                self._feed(machine.Changed())

    def _take(self, reader: PartitionReader) -> ConsumedBatch:
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

    def _feed(self, event: machine.Event) -> None:
        if self._network.is_closed:
            return  # closing answers the requests in flight
        effects = self._fetcher.handle(event, time.monotonic())
        while effects:
            effects = self._run(effects)

    def _run(self, effects: list[machine.Effect]) -> list[machine.Effect]:
        """Carry out effects; returns those that follow immediately."""
        more: list[machine.Effect] = []
        for effect in effects:
            event: machine.Event | None = None
            match effect:
                case machine.Connect(node):
                    event = self._connect(node)
                case machine.SendFetch():
                    event = self._send(effect)
                case machine.RefreshMetadata(topics):
                    self._stale.want(topics)
            if event is not None:
                more += self._fetcher.handle(event, time.monotonic())
        return more

    def _connect(self, node: int) -> machine.Event | None:
        try:
            self._network.connect(node)
        except KafkaError:
            # Reported later: now, it would be retried before the leader is looked up.
            self._unreachable.append(node)
            return None
        return machine.NodeConnected(node)

    def _send(self, effect: machine.SendFetch) -> machine.Event | None:
        request_id = effect.request_id

        def on_answer(answer: Answer) -> None:
            self._feed(machine.Fetched(request_id, answer))

        error = self._network.submit(effect.node, effect.request, 4, effect.version_max, on_answer)
        return None if error is None else machine.Fetched(request_id, error)
