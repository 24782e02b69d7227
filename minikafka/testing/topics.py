"""Topics that fixtures make and delete, on any Kafka."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import create_topics, delete_topics, metadata

from .wire import Wire

_TIMEOUT_MS: Final = 30_000
_ASK_AGAIN_S: Final = 0.02


def create_topic(
    bootstrap: str,
    name: str,
    partitions: int = 1,
    configs: Mapping[str, object] | None = None,
) -> None:
    """Make a topic, with the brokers' number of replicas, and wait until it has leaders.

    Raises:
        RuntimeError: the broker refused, for instance because a setting is unknown.
        TimeoutError: it has no leaders after half a minute.
    """
    topic = create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=-1,
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
        _wait_for_leaders(wire, name)


def _wait_for_leaders(wire: Wire, name: str) -> None:
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
