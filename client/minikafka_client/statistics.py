"""Statistics of producers, consumers and share consumers: what their ``statistics()`` returns.

A statistics object is a snapshot: it never changes, and taking one costs the client nothing but the
moment. Counters begin at 0 when the client is made and only rise. Rates and latencies are those of
about the last `WINDOW_S` seconds. Everything is counted per batch or per request, never per record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from minikafka_client.types import TopicPartition

WINDOW_S: Final = 30
"""How far back rates look. Latencies are kept for one to two such windows."""


class Rates(NamedTuple):
    """How much per second, in the last `WINDOW_S` seconds (or since the first use, if shorter)."""

    records_per_s: float
    bytes_per_s: float


class Latencies(NamedTuple):
    """How long requests took; quantiles are at most 10 % too high. All 0 when there were none."""

    request_count: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    max_ms: float


class BrokerStatistics(NamedTuple):
    """What goes to and comes from one broker.

    Attributes:
        in_flight_requests: unanswered Produce (or Fetch) requests.
        latency: of the answered ones. A Fetch waits at the broker until there is something to send.
    """

    in_flight_requests: int
    latency: Latencies


class ConnectionStatistics(NamedTuple):
    """Connections to the cluster.

    Attributes:
        open_connections: a client has up to three with a broker, so that none waits for another.
        connects: how many were opened.
        connect_failures: how many attempts failed.
        disconnects: how many ended before the client was closed.
        metadata_age_s: since the last metadata response; None before the first.
    """

    open_connections: int
    connects: int
    connect_failures: int
    disconnects: int
    metadata_age_s: float | None


class ProducerStatistics(NamedTuple):
    """A producer at one moment.

    Attributes:
        delivered: acknowledged records and bytes (as sent: after compression) per second.
        delivered_records, delivered_bytes: the same in all.
        failed_records: not delivered; their handles raise.
        buffered_records: not acknowledged yet, in flight or not.
        buffered_bytes: the part of ``buffer_memory`` that is in use.
        buffer_memory: the limit.
        buffered_batches: not acknowledged yet.
        in_flight_requests: unanswered Produce requests.
        requests: Produce requests that were sent.
        retries: batches that were sent again, or will be.
        splits: batches that were too large for their topic and were split.
        errors: how often batches failed, by the error's name, retried or not.
        latency: of Produce requests at all brokers together.
        brokers: by node id; every broker that was sent to.
        connections: to the cluster.
    """

    delivered: Rates
    delivered_records: int
    delivered_bytes: int
    failed_records: int
    buffered_records: int
    buffered_bytes: int
    buffer_memory: int
    buffered_batches: int
    in_flight_requests: int
    requests: int
    retries: int
    splits: int
    errors: Mapping[str, int]
    latency: Latencies
    brokers: Mapping[int, BrokerStatistics]
    connections: ConnectionStatistics


class PartitionStatistics(NamedTuple):
    """An assigned partition.

    Attributes:
        position: offset of the next record, -1 while it is looked up.
        end_offset: of the isolation level, at the last fetch; -1 before the first.
        lag: records between the two; None before the first fetch.
        prefetched_bytes: fetched and not yet consumed.
        is_paused: as `pause` has left it.
        preferred_replica: the broker that it is read from instead of the leader, or -1.
    """

    position: int
    end_offset: int
    lag: int | None
    prefetched_bytes: int
    is_paused: bool
    preferred_replica: int


class GroupStatistics(NamedTuple):
    """A consumer's membership.

    Attributes:
        state: see `minikafka_client.core.group_member`.
        member_id, generation_id: "" and -1 outside a generation.
        coordinator: its node id, -1 while unknown.
        rebalances: how many assignments this member has got.
        last_poll_age_s: since the application last asked for records; None before it did.
    """

    state: str
    member_id: str
    generation_id: int
    coordinator: int
    rebalances: int
    last_poll_age_s: float | None


class ShareConsumerStatistics(NamedTuple):
    """A share consumer at one moment.

    Attributes:
        consumed: records, and bytes of keys and values, per second.
        consumed_records, consumed_bytes: the same in all; a record that is delivered again counts
            again.
        buffered_records: acquired and not consumed yet; their locks run.
        held_records: acquired, and no acknowledgement of theirs was sent and answered yet.
        acknowledged_records: whose acknowledgement took effect.
        failed_acknowledgements: that did not, because the lock had ended, say.
        requests: ShareFetch and ShareAcknowledge requests that were sent.
        errors: how often acknowledgements of a partition failed, by the error's name.
        latency: of these requests, which may wait up to ``fetch_max_wait_ms`` at the broker.
        acquisition_lock_timeout_ms: of the group; None before the first fetch.
        brokers: by node id; every broker that was asked.
        group: the membership.
        connections: to the cluster.
    """

    consumed: Rates
    consumed_records: int
    consumed_bytes: int
    buffered_records: int
    held_records: int
    acknowledged_records: int
    failed_acknowledgements: int
    requests: int
    errors: Mapping[str, int]
    latency: Latencies
    acquisition_lock_timeout_ms: int | None
    brokers: Mapping[int, BrokerStatistics]
    group: GroupStatistics
    connections: ConnectionStatistics


class ConsumerStatistics(NamedTuple):
    """A consumer at one moment.

    Attributes:
        consumed: records and bytes (as fetched) per second; a batch counts with its first record.
        consumed_records, consumed_bytes: the same in all.
        fetched_bytes: received from brokers.
        prefetched_bytes: fetched and not yet consumed.
        prefetch_size_bytes_max: the limit.
        lag: of all partitions together; None while one of them has none.
        partitions: every assigned one.
        fetches: Fetch requests that were sent.
        errors: how often a partition's fetch failed, by the error's name.
        latency: of Fetch requests, which wait up to ``fetch_max_wait_ms`` at the broker.
        brokers: by node id; every broker that was asked.
        group: the membership; None without a group.
        connections: to the cluster.
    """

    consumed: Rates
    consumed_records: int
    consumed_bytes: int
    fetched_bytes: int
    prefetched_bytes: int
    prefetch_size_bytes_max: int
    lag: int | None
    partitions: Mapping[TopicPartition, PartitionStatistics]
    fetches: int
    errors: Mapping[str, int]
    latency: Latencies
    brokers: Mapping[int, BrokerStatistics]
    group: GroupStatistics | None
    connections: ConnectionStatistics
