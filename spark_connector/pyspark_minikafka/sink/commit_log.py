"""The commit log: a compacted topic with one record for each query, its newest batch.

The key is the query's id, the value a JSON object with a version. Everything is in partition 0.
Whoever reads it begins at the end, where the newest records are.
"""

from __future__ import annotations

import json
from typing import Any, Final

from minikafka.protocol.errors import ErrorCode
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import BrokerError, KafkaError, UnknownTopicError
from minikafka_client.plans.ask import Plan, RetryPause
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
from .log_reading import fetch_range, newest_committed
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
    """Read a value.

    Raises:
        UnsupportedWriteError: it was not written by this connector, or by a later version.
    """
    try:
        document: dict[str, Any] = json.loads(value)
        if document["version"] != VERSION:
            raise UnsupportedWriteError(
                f"the commit log was written by a later version of the connector (its format is "
                f"{document['version']!r}, this one knows {VERSION}): upgrade"
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
            f"the commit log has a record that this connector did not write: {value!r:.200}; give "
            f"the sink a topic of its own with the option commitLogTopic"
        ) from error


def create_commit_log(admin: AdminClient, topic: str) -> None:
    """Create the topic, if there is none, with at most three replicas; if there is, look at it.

    Raises:
        UnsupportedWriteError: there is one, and it is not compacted.
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
    except KafkaError:  # not everybody may ask
        return
    policy = entries[_POLICY].value or ""
    if policy != "compact":
        raise UnsupportedWriteError(
            f"the commit log's topic {topic!r} has cleanup.policy={policy}, so that what is "
            f"committed would be forgotten; set it to compact, or name another topic with the "
            f"option commitLogTopic"
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
    """The newest record of a query that is committed (None: there is none), and the log's end.

    Raises:
        UnsupportedWriteError: the log was written by others.
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
    """The newest record of a query in a part of the log.

    Raises:
        UnsupportedWriteError: the log was written by others.
        KafkaError: it cannot be read.
    """
    where = TopicPartition(topic, PARTITION)
    payloads = admin.run_plan(lambda cluster: fetch_range(cluster, where, begin, end))
    found = newest_committed(payloads, query_id.encode(), end)
    return None if found is None else decode_commit(found)
