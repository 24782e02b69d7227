"""What fixtures and clusters do with topics and their replicas, on any Kafka."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    alter_partition_reassignments,
    create_topics,
    delete_topics,
    elect_leaders,
    metadata,
)
from minikafka.protocol.messages import (
    find_coordinator as find_coordinator_api,
)

from .wire import Wire

_TIMEOUT_MS: Final = 30_000
_ASK_AGAIN_S: Final = 0.02


def create_topic(
    bootstrap: str,
    name: str,
    partitions: int = 1,
    configs: Mapping[str, object] | None = None,
    *,
    replicas: int = -1,
) -> None:
    """Make a topic and wait until it has leaders; -1 is the brokers' number of replicas.

    Raises:
        RuntimeError: the broker refused, for instance because a setting is unknown.
        TimeoutError: it has no leaders after half a minute.
    """
    topic = create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[],
        configs=[
            create_topics.CreatableTopicConfig(name=key, value=str(value))
            for key, value in (configs or {}).items()
        ],
    )
    with Wire(bootstrap.partition(",")[0]) as wire:
        request = create_topics.Request(topics=[topic], timeout_ms=_TIMEOUT_MS)
        answer = wire.ask(request, 5, create_topics.Response).topics[0]
        if answer.error_code:
            code = ErrorCode(answer.error_code).name
            raise RuntimeError(f"cannot create the topic {name}: {code}: {answer.error_message}")
        wait_for_leaders(wire, name)


def wait_for_leaders(wire: Wire, name: str) -> None:
    """Wait until a broker knows a topic and the leaders of its partitions.

    Raises:
        TimeoutError: it does not after half a minute.
    """
    deadline = time.monotonic() + _TIMEOUT_MS / 1000
    asked = metadata.Request(
        topics=[metadata.RequestTopic(name=name)], allow_auto_topic_creation=False
    )
    while True:
        (topic,) = wire.ask(asked, 9, metadata.Response).topics
        if not topic.error_code and all(one.leader_id >= 0 for one in topic.partitions):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"the topic {name} has no leaders")
        time.sleep(_ASK_AGAIN_S)


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic; one that a test has deleted already is no error.

    Raises:
        RuntimeError: the broker refused.
    """
    with Wire(bootstrap.partition(",")[0]) as wire:
        request = delete_topics.Request(topic_names=[name], timeout_ms=_TIMEOUT_MS)
        code = wire.ask(request, 4, delete_topics.Response).responses[0].error_code
    if code not in {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}:
        raise RuntimeError(f"cannot delete the topic {name}: {ErrorCode(code).name}")


def replicas_of(wire: Wire, topic: str, partition: int) -> list[int]:
    """The nodes with replicas of a partition, the preferred leader first; none if there is none."""
    described = _describe(wire, topic, partition)
    return [] if described is None else described.replica_nodes


def in_sync_of(wire: Wire, topic: str, partition: int) -> list[int]:
    """The nodes whose replicas of a partition are in sync; none if there is no such partition."""
    described = _describe(wire, topic, partition)
    return [] if described is None else described.isr_nodes


def _describe(wire: Wire, topic: str, partition: int) -> metadata.Partition | None:
    asked = metadata.Request(
        topics=[metadata.RequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    for described in wire.ask(asked, 9, metadata.Response).topics:
        for one in described.partitions:
            if one.partition_index == partition:
                return one
    return None


def find_coordinator(wire: Wire, key: str, *, is_group: bool) -> int:
    """The node that coordinates a group or a transactional id; makes the topic of its state.

    Raises:
        TimeoutError: there is none after half a minute.
    """
    deadline = time.monotonic() + _TIMEOUT_MS / 1000
    asked = find_coordinator_api.Request(key=key, key_type=0 if is_group else 1)
    while True:
        answer = wire.ask(asked, 3, find_coordinator_api.Response)
        if not answer.error_code:
            return answer.node_id
        if time.monotonic() > deadline:
            code = ErrorCode(answer.error_code).name
            raise TimeoutError(f"{key} has no coordinator: {code}")
        time.sleep(_ASK_AGAIN_S)


def reorder(wire: Wire, topic: str, partition: int, replicas: Sequence[int]) -> None:
    """Change the order of a partition's replicas: the first is the preferred leader.

    Raises:
        RuntimeError: the controller refused.
    """
    wanted = alter_partition_reassignments.ReassignablePartition(
        partition_index=partition, replicas=list(replicas)
    )
    answer = wire.ask(
        alter_partition_reassignments.Request(
            topics=[
                alter_partition_reassignments.ReassignableTopic(name=topic, partitions=[wanted])
            ]
        ),
        0,
        alter_partition_reassignments.Response,
    )
    codes = [one.error_code for asked in answer.responses for one in asked.partitions]
    _check(f"the replicas of {topic}-{partition} cannot be put in order", answer.error_code, *codes)


def elect_preferred(wire: Wire, topic: str, partition: int) -> str:
    """Have the preferred replica lead; returns the error's name if it cannot."""
    wanted = elect_leaders.TopicPartitions(topic=topic, partitions=[partition])
    answer = wire.ask(
        elect_leaders.Request(topic_partitions=[wanted], timeout_ms=30_000),
        2,
        elect_leaders.Response,
    )
    codes = [answer.error_code] + [
        one.error_code
        for asked in answer.replica_election_results
        for one in asked.partition_result
    ]
    bad = [code for code in codes if code not in {0, ErrorCode.ELECTION_NOT_NEEDED}]
    return ErrorCode(bad[0]).name if bad else ""


def _check(what: str, *codes: int) -> None:
    for code in codes:
        if code:
            raise RuntimeError(f"{what}: {ErrorCode(code).name}")
