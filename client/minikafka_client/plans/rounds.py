"""Calls for many things that may partly fail: what may still succeed is repeated.

An *attempt* is a plan that takes the keys still wanted and returns an outcome, a value or an error,
for each of them. `in_rounds` repeats it with those whose error is worth a retry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import metadata
from minikafka.protocol.schema import Response
from minikafka_client.core.cluster import NO_LEADER, Cluster
from minikafka_client.errors import (
    KafkaError,
    SomeFailedError,
    UnreadableResponseError,
    broker_error,
)
from minikafka_client.plans.plan import (
    ANY_BROKER,
    CONTROLLER,
    Call,
    Plan,
    RetryPause,
    call,
    call_nodes,
)
from minikafka_client.types import TopicPartition

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")
_Response = TypeVar("_Response", bound=Response)

Attempt = Callable[[Sequence[_Key]], Plan[Mapping[_Key, "_Value | KafkaError"]]]


def is_worth_a_retry(error: KafkaError) -> bool:
    """Whether an administrator's call should be repeated.

    Kafka calls an unknown topic retriable, because metadata may lag behind. Here a mistyped name
    should fail without waiting for a minute.
    """
    return error.is_retriable and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def in_rounds(
    keys: Iterable[_Key],
    attempt: Attempt[_Key, _Value],
    *,
    should_retry: Callable[[KafkaError], bool] = is_worth_a_retry,
) -> Plan[dict[_Key, _Value]]:
    """Repeat an attempt until every key has a value or a final error; see `raise_if_failed`."""
    wanted = list(dict.fromkeys(keys))
    succeeded: dict[_Key, _Value] = {}
    failed: dict[_Key, KafkaError] = {}
    rounds = 0
    while wanted:
        outcome: dict[_Key, _Value | KafkaError] = dict.fromkeys(wanted, _unanswered())
        try:
            outcome.update((yield from attempt(wanted)))
        except KafkaError as error:
            outcome = dict.fromkeys(wanted, error)
        retriable: dict[_Key, KafkaError] = {}
        for key in wanted:
            result = outcome[key]
            if not isinstance(result, KafkaError):
                succeeded[key] = result
            elif should_retry(result):
                retriable[key] = result
            else:
                failed[key] = result
        wanted = list(retriable)
        if wanted:
            try:
                yield RetryPause(rounds, next(iter(retriable.values())))
            except KafkaError:
                failed.update(retriable)
                break
            rounds += 1
    raise_if_failed(failed, succeeded)
    return succeeded


def _unanswered() -> KafkaError:
    return UnreadableResponseError("the broker's answer leaves out what was asked for")


def raise_if_failed(failed: Mapping[_Key, KafkaError], succeeded: Mapping[_Key, _Value]) -> None:
    """Raise the error of the only key, or `SomeFailedError` for some of several."""
    if not failed:
        return
    if len(failed) == 1 and not succeeded:
        raise next(iter(failed.values()))
    raise SomeFailedError(failed, succeeded)


def refresh_metadata(
    names: Collection[str] | None = (), *, allow_auto_topic_creation: bool = False
) -> Plan[metadata.Response]:
    """Ask for brokers, controller and these topics (None: all); the driver keeps the answer."""
    topics = None if names is None else [metadata.RequestTopic(name=name) for name in names]
    request = metadata.Request(topics=topics, allow_auto_topic_creation=allow_auto_topic_creation)
    # Version 0 cannot ask for "no topics".
    return call(ANY_BROKER, request, metadata.Response, version_min=1)


def refresh_metadata_by_id(topic_ids: Collection[bytes]) -> Plan[metadata.Response]:
    """Ask for topics by their ids (KIP-516)."""
    topics = [metadata.RequestTopic(topic_id=each, name=None) for each in sorted(topic_ids)]
    request = metadata.Request(topics=topics, allow_auto_topic_creation=False)
    return call(ANY_BROKER, request, metadata.Response, version_min=12)


def at_controller(
    cluster: Cluster,
    keys: Sequence[_Key],
    make_call: Callable[[int, Sequence[_Key]], Call],
    response_type: type[_Response],
    read: Callable[[_Response], Mapping[_Key, _Value | KafkaError]],
) -> Plan[Mapping[_Key, _Value | KafkaError]]:
    """Attempt: one call to the controller, which is looked up first each time it has moved."""
    if cluster.controller_id not in cluster.brokers:
        yield from refresh_metadata()
    answer = yield make_call(CONTROLLER, keys)
    assert isinstance(answer, response_type)
    outcome = read(answer)
    if any(
        isinstance(result, KafkaError) and result.code is ErrorCode.NOT_CONTROLLER
        for result in outcome.values()
    ):
        yield from refresh_metadata()
    return outcome


def ask_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    make_call: Callable[[int, Sequence[TopicPartition]], Call],
    response_type: type[_Response],
    read: Callable[[_Response], Mapping[TopicPartition, _Value | KafkaError]],
) -> Plan[dict[TopicPartition, _Value]]:
    """Call the leaders of partitions concurrently, in rounds that refresh the metadata."""
    is_first_attempt = True

    def attempt(
        wanted: Sequence[TopicPartition],
    ) -> Plan[Mapping[TopicPartition, _Value | KafkaError]]:
        nonlocal is_first_attempt
        unknown = {p.topic for p in wanted if cluster.leader(*p) == NO_LEADER}
        stale = unknown if is_first_attempt else {p.topic for p in wanted}
        is_first_attempt = False
        if stale:
            yield from refresh_metadata(sorted(stale))
        outcome: dict[TopicPartition, _Value | KafkaError] = {}
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            node = cluster.leader(*partition)
            if node == NO_LEADER:
                outcome[partition] = no_leader_error(cluster, partition)
            else:
                by_node.setdefault(node, []).append(partition)
        yield from call_nodes(
            by_node, make_call, response_type, lambda _node, answer: read(answer), outcome
        )
        return outcome

    return in_rounds(partitions, attempt)


def no_leader_error(cluster: Cluster, partition: TopicPartition) -> KafkaError:
    topic = cluster.topics.get(partition.topic)
    subject = f"partition {partition.partition} of topic {partition.topic!r}"
    if topic is not None and topic.error_code:
        return broker_error(topic.error_code, f"topic {partition.topic!r}")
    if topic is None or partition.partition not in topic.partitions:
        return broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject)
    return broker_error(ErrorCode.LEADER_NOT_AVAILABLE, subject)


def outcome_of(
    value: _Value, error_code: int, subject: str, message: str | None = None
) -> _Value | KafkaError:
    """The value, unless ``error_code`` stands for an error."""
    return broker_error(error_code, subject, message) if error_code else value


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group partitions as requests want them: topic -> partition indexes."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped
