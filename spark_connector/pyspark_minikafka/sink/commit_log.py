"""The commit log: a compacted topic with one record for each query, its newest batch.

The key is the query's id, the value a JSON object with a version. Everything is in partition 0.
Reads begin at the end, where the newest records are.
"""

from __future__ import annotations

import json
from typing import Any, Final

from minikafka.protocol.errors import ErrorCode
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import BrokerError, KafkaError, UnknownTopicError
from minikafka_client.plans.plan import Plan, RetryPause
from minikafka_client.plans.rounds import refresh_metadata
from minikafka_client.sync import AdminClient
from minikafka_client.types import (
    EARLIEST,
    LATEST,
    ConfigResource,
    NewTopic,
    TopicPartition,
)

from .errors import UnsupportedWriteError
from .log_reader import fetch_range, newest_committed
from .protocol import CommitRecord, Part

VERSION: Final = 1
PARTITION: Final = 0

_POLICY: Final = "cleanup.policy"
_REPLICAS_MAX: Final = 3
_SEGMENT_SIZE_BYTES: Final = 4 * 1024 * 1024
_FIRST_LOOK: Final = 128
_LOOK_GROWS: Final = 16


def encode_commit(record: CommitRecord) -> bytes:
    """The value of a record."""
    index = {part.transactional_id: number for number, part in enumerate(record.parts)}
    document = {
        "version": VERSION,
        "run": record.run_id,
        "batch": record.batch_id,
        "transactions": [list(part) for part in record.parts],
        "slots": {str(each): index.get(slot, slot) for each, slot in record.slots.items()},
    }
    return json.dumps(document, separators=(",", ":")).encode()


def decode_commit(value: bytes) -> CommitRecord:
    """Parse the value of a record.

    Raises:
        UnsupportedWriteError: it was written by another program, or by a later version.
    """
    try:
        document: dict[str, Any] = json.loads(value)
        if document["version"] != VERSION:
            raise UnsupportedWriteError(
                f"the commit log was written by a later version of the connector (format "
                f"{document['version']!r}; this one reads {VERSION}): upgrade"
            )
        parts = tuple(
            Part(str(name), int(producer_id), int(epoch), bool(is_two_phase))
            for name, producer_id, epoch, is_two_phase in document["transactions"]
        )
        slots = {
            int(each): parts[slot].transactional_id if isinstance(slot, int) else str(slot)
            for each, slot in document["slots"].items()
        }
        return CommitRecord(str(document["run"]), int(document["batch"]), parts, slots)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        if isinstance(error, UnsupportedWriteError):
            raise
        raise UnsupportedWriteError(
            f"the commit log has a record that this connector did not write: {value!r:.200}; set "
            f"the option commitLogTopic to a topic of its own"
        ) from error


def create_commit_log(admin: AdminClient, topic: str) -> None:
    """Create the topic with at most three replicas, or check an existing one.

    Raises:
        UnsupportedWriteError: the existing topic is not compacted.
        KafkaError: it cannot be created.
    """
    if admin.run_plan(lambda cluster: _exists(cluster, topic)):
        _check_compacted(admin, topic)
        return
    replicas = min(_REPLICAS_MAX, len(admin.describe_cluster().brokers))
    configs = {_POLICY: "compact", "segment.bytes": str(_SEGMENT_SIZE_BYTES)}
    try:
        admin.create_topics([NewTopic(topic, 1, replicas, configs)])
    except BrokerError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


def _check_compacted(admin: AdminClient, topic: str) -> None:
    resource = ConfigResource.topic(topic)
    try:
        entries = admin.describe_configs([resource], names=[_POLICY])[resource]
    except KafkaError:  # it may not be authorized
        return
    policy = entries[_POLICY].value or ""
    if policy != "compact":
        raise UnsupportedWriteError(
            f"the commit log's topic {topic!r} has cleanup.policy={policy}, which would delete "
            f"commits; set it to compact, or set the option commitLogTopic to another topic"
        )


def _exists(cluster: Cluster, topic: str) -> Plan[bool]:
    attempt = 0
    while True:
        try:
            yield from refresh_metadata([topic])
        except KafkaError as error:
            if not error.is_retriable:
                raise
            yield RetryPause(attempt, error)
            attempt += 1
        else:
            return cluster.partition_count(topic) > 0


def read_newest(admin: AdminClient, topic: str, query_id: str) -> tuple[CommitRecord | None, int]:
    """The newest committed record of a query, if any, and the end of the log.

    Raises:
        UnsupportedWriteError: another program wrote to the log.
        KafkaError: it cannot be read.
    """
    where = TopicPartition(topic, PARTITION)
    try:
        end = admin.list_offsets({where: LATEST})[where].offset
        first = admin.list_offsets({where: EARLIEST})[where].offset if end else 0
    except UnknownTopicError:
        return None, 0
    look = _FIRST_LOOK
    while True:
        begin = max(first, end - look)
        found = read_range(admin, topic, query_id, begin, end)
        if found is not None or begin == first:
            return found, end
        look *= _LOOK_GROWS


def read_range(
    admin: AdminClient, topic: str, query_id: str, begin: int, end: int
) -> CommitRecord | None:
    """The newest committed record of a query in a part of the log.

    Raises:
        UnsupportedWriteError: another program wrote to the log.
        KafkaError: it cannot be read.
    """
    where = TopicPartition(topic, PARTITION)
    payloads = admin.run_plan(lambda cluster: fetch_range(cluster, where, begin, end))
    found = newest_committed(payloads, query_id.encode(), end)
    return None if found is None else decode_commit(found)
