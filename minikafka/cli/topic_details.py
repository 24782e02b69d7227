"""What `minikafka topic describe` shows beyond metadata: eligible leaders, and each replica's log.

Every replica is queried with Kafka's own requests: DescribeLogDirs for the size, and ListOffsets as
the debugging consumer (replica id -2), which followers answer as well, with the log end offset
instead of the high watermark. Brokers that do not answer soon are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from minikafka.protocol.schema import Request, Response
    from minikafka_client import TopicDescription
    from minikafka_client.core.cluster import Cluster
    from minikafka_client.plans.plan import Plan

    _Response = TypeVar("_Response", bound=Response)

PATIENCE_MS: Final = 3000
_DEBUGGING_CONSUMER: Final = -2
_LATEST: Final = -1
_EARLIEST: Final = -2
_PAGES_MAX: Final = 1000

Place = tuple[str, int]
"""Topic and partition."""


class EligibleLeaders(NamedTuple):
    """Replicas outside the ISR that can lead without losing records (KIP-966)."""

    eligible: tuple[int, ...]
    last_known: tuple[int, ...]


class ReplicaLog(NamedTuple):
    """One replica's log; None where its broker did not answer."""

    node_id: int
    log_start_offset: int | None
    log_end_offset: int | None
    size_bytes: int | None


class Details(NamedTuple):
    """Eligible leaders, where brokers report them, and the logs of all replicas.

    Logs are in the order of the replicas: the preferred leader's comes first.
    """

    eligible: Mapping[Place, EligibleLeaders]
    logs: Mapping[Place, Sequence[ReplicaLog]]


def find_details(cluster: Cluster, topics: Collection[TopicDescription]) -> Plan[Details]:
    """Ask one broker about eligible leaders, and every broker about its logs."""
    replicas = {
        (topic.name, partition.partition): partition.replicas
        for topic in topics
        for partition in topic.partitions
    }
    held: dict[int, list[Place]] = {}
    for place, nodes in replicas.items():
        for node in nodes:
            if node in cluster.brokers:
                held.setdefault(node, []).append(place)
    eligible = yield from _eligible([topic.name for topic in topics])
    starts = yield from _offsets(held, _EARLIEST)
    ends = yield from _offsets(held, _LATEST)
    sizes = yield from _sizes(held)
    logs = {
        place: [
            ReplicaLog(
                node, starts.get((node, place)), ends.get((node, place)), sizes.get((node, place))
            )
            for node in nodes
        ]
        for place, nodes in replicas.items()
    }
    return Details(eligible, logs)


def _eligible(names: Sequence[str]) -> Plan[dict[Place, EligibleLeaders]]:
    from minikafka.protocol.messages import describe_topic_partitions
    from minikafka_client import KafkaError
    from minikafka_client.plans.plan import ANY_BROKER, call

    found: dict[Place, EligibleLeaders] = {}
    cursor: describe_topic_partitions.CursorRequest | None = None
    for _ in range(_PAGES_MAX if names else 0):
        request = describe_topic_partitions.Request(
            topics=[describe_topic_partitions.TopicRequest(name=name) for name in names],
            cursor=cursor,
        )
        try:
            page = yield from call(ANY_BROKER, request, describe_topic_partitions.Response)
        except KafkaError:  # an older broker
            return found
        for topic in page.topics:
            for one in topic.partitions:
                if topic.name is not None and one.eligible_leader_replicas is not None:
                    found[topic.name, one.partition_index] = EligibleLeaders(
                        tuple(one.eligible_leader_replicas), tuple(one.last_known_elr or ())
                    )
        if page.next_cursor is None:
            break
        cursor = describe_topic_partitions.CursorRequest(
            topic_name=page.next_cursor.topic_name,
            partition_index=page.next_cursor.partition_index,
        )
    return found


def _offsets(
    held: Mapping[int, Sequence[Place]], timestamp: int
) -> Plan[dict[tuple[int, Place], int]]:
    from minikafka.protocol.messages import list_offsets

    requests = {
        node: list_offsets.Request(
            replica_id=_DEBUGGING_CONSUMER,
            topics=[
                list_offsets.Topic(
                    name=name,
                    partitions=[
                        list_offsets.Partition(partition_index=index, timestamp=timestamp)
                        for index in indexes
                    ],
                )
                for name, indexes in _by_topic(places).items()
            ],
            timeout_ms=PATIENCE_MS,
        )
        for node, places in held.items()
    }
    answers = yield from _ask_each(requests, list_offsets.Response)
    return {
        (node, (topic.name, one.partition_index)): one.offset
        for node, answer in answers.items()
        for topic in answer.topics
        for one in topic.partitions
        if not one.error_code and one.offset >= 0
    }


def _sizes(held: Mapping[int, Sequence[Place]]) -> Plan[dict[tuple[int, Place], int]]:
    from minikafka.protocol.messages import describe_log_dirs

    requests = {
        node: describe_log_dirs.Request(
            topics=[
                describe_log_dirs.DescribableLogDirTopic(topic=name, partitions=indexes)
                for name, indexes in _by_topic(places).items()
            ]
        )
        for node, places in held.items()
    }
    answers = yield from _ask_each(requests, describe_log_dirs.Response)
    return {
        (node, (topic.name, one.partition_index)): one.partition_size
        for node, answer in answers.items()
        for directory in answer.results
        for topic in directory.topics
        for one in topic.partitions
        if not one.is_future_key
    }


def _ask_each(requests: Mapping[int, Request], kind: type[_Response]) -> Plan[dict[int, _Response]]:
    from minikafka_client import KafkaError
    from minikafka_client.plans.plan import Call, call_all

    calls = [Call(node, request, timeout_ms=PATIENCE_MS) for node, request in requests.items()]
    answers = yield from call_all(calls, kind)
    return {
        node: answer
        for node, answer in zip(requests, answers, strict=True)
        if not isinstance(answer, KafkaError)
    }


def _by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for name, index in places:
        grouped.setdefault(name, []).append(index)
    return grouped
