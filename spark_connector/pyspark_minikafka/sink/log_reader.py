"""Reads the committed records of a query from the commit log.

Queries share the log, so the last stable offset is useless: a query whose driver died during a
transaction would hide what the others have committed. So everything up to the high watermark is
read, and the markers show which transactions are committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from minikafka.protocol.messages import fetch
from minikafka.protocol.records import (
    Buffer,
    ControlType,
    decode_control_type,
    decode_records,
    iter_batches,
)
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import KafkaError, UnreadableResponseError
from minikafka_client.plans.plan import Call, Plan
from minikafka_client.plans.rounds import ask_leaders, outcome_of
from minikafka_client.types import TopicPartition

_FETCH_SIZE_BYTES: Final = 4 * 1024 * 1024
_FETCH_WAIT_MS: Final = 500
_NAMED_TOPICS_VERSION: Final = 12
_EMPTY_ANSWERS_MAX: Final = 20


def newest_committed(payloads: Iterable[Buffer], key: bytes, end: int) -> bytes | None:
    """The value of the last record with a key whose transaction is committed.

    A record of an undecided transaction does not count.

    Args:
        payloads: record batches, in order.
        key: of the record.
        end: records from this offset on do not count.
    """
    newest: bytes | None = None
    pending: dict[int, bytes] = {}
    for payload in payloads:
        for position, header in iter_batches(payload):
            if header.base_offset >= end:
                return newest
            records = decode_records(payload, position, check_crc=True)
            if header.is_control:
                value = pending.pop(header.producer_id, None)
                commits = bool(records) and decode_control_type(records[0].key)[1]
                if value is not None and commits == ControlType.COMMIT:
                    newest = value
            elif header.is_transactional:
                for record in records:
                    if record.key == key and record.value is not None:
                        pending[header.producer_id] = record.value
    return newest


def fetch_range(cluster: Cluster, where: TopicPartition, begin: int, end: int) -> Plan[list[bytes]]:
    """Fetch all batches between two offsets, and possibly more.

    Raises:
        KafkaError: they cannot be read.
    """
    payloads: list[bytes] = []
    position, empty_answers = begin, 0
    while position < end:
        payload = yield from _fetch(cluster, where, position)
        before = position
        for _, header in iter_batches(payload):
            position = max(position, header.next_offset)
        if position > before:
            payloads.append(payload)
            continue
        empty_answers += 1
        if empty_answers > _EMPTY_ANSWERS_MAX:
            raise UnreadableResponseError(
                f"{where.topic}-{where.partition} ends before offset {end}: nothing at {position}"
            )
    return payloads


def _fetch(cluster: Cluster, where: TopicPartition, offset: int) -> Plan[bytes]:
    def make_call(node: int, _: Sequence[TopicPartition]) -> Call:
        partition = fetch.Partition(
            partition=where.partition,
            current_leader_epoch=cluster.leader_epoch(*where),
            fetch_offset=offset,
            partition_max_bytes=_FETCH_SIZE_BYTES,
        )
        request = fetch.Request(
            max_wait_ms=_FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=_FETCH_SIZE_BYTES,
            topics=[fetch.Topic(topic=where.topic, partitions=[partition])],
        )
        return Call(node, request, version_max=_NAMED_TOPICS_VERSION)

    def read(response: fetch.Response) -> Mapping[TopicPartition, bytes | KafkaError]:
        [topic] = response.responses
        [outcome] = topic.partitions
        payload = bytes(cast("memoryview", outcome.records or b""))  # as decoded
        return {where: outcome_of(payload, outcome.error_code, f"commit log {where.topic!r}")}

    found = yield from ask_leaders(cluster, [where], make_call, fetch.Response, read)
    return found[where]
