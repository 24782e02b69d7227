"""Puts a consumer's statistics together."""

from __future__ import annotations

from math import inf

import trio

from minikafka_client.core.group_member import GroupMember
from minikafka_client.statistics import (
    ConnectionStatistics,
    ConsumerStatistics,
    GroupStatistics,
    PartitionStatistics,
)
from minikafka_client.trio_face.reading import Reading


def consumer_statistics(
    reading: Reading, member: GroupMember | None, connections: ConnectionStatistics
) -> ConsumerStatistics:
    """What a consumer has done, and how far it is."""
    now = trio.current_time()
    fetches = reading.fetches
    fetcher = fetches.fetcher
    partitions = {
        partition: PartitionStatistics(
            position=reading.handout.position(reader),
            end_offset=reader.end_offset,
            lag=reader.lag,
            prefetched_bytes=reader.buffered_bytes,
            is_paused=reader.is_paused,
            preferred_replica=reader.preferred_replica,
        )
        for partition, reader in sorted(reading.readers.items())
    }
    lags = [each.lag for each in partitions.values()]
    known_lags = [lag for lag in lags if lag is not None]
    return ConsumerStatistics(
        consumed=reading.consumed.rates(now),
        consumed_records=reading.consumed.records,
        consumed_bytes=reading.consumed.size_bytes,
        fetched_bytes=fetcher.fetched_bytes,
        prefetched_bytes=fetcher.buffered_bytes,
        prefetch_size_bytes_max=fetcher.prefetch_size_bytes_max,
        lag=sum(known_lags) if len(known_lags) == len(lags) else None,
        partitions=partitions,
        fetches=fetches.meter.requests,
        errors=dict(fetcher.errors),
        latency=fetches.meter.latencies(now),
        brokers=fetches.meter.brokers(now),
        group=None if member is None else _group_statistics(reading, member, now),
        connections=connections,
    )


def _group_statistics(reading: Reading, member: GroupMember, now: float) -> GroupStatistics:
    return GroupStatistics(
        state=member.state.name.lower(),
        member_id=member.member_id,
        generation_id=member.generation_id,
        coordinator=-1 if member.coordinator is None else member.coordinator,
        rebalances=member.rebalance_count,
        last_poll_age_s=None if reading.polled_at == -inf else now - reading.polled_at,
    )
