"""A scenario in words."""

from __future__ import annotations

from minikafka.lab.matrix import Acks
from minikafka.lab.scenario import Scenario


def title_of(scenario: Scenario) -> str:
    """A scenario in words."""
    producer, topic, consumer, fault = scenario.cell
    words = [f"acks={'all' if producer.acks is Acks.ALL else producer.acks.value}"]
    if producer.is_transactional:
        words.append("transactions")
    elif producer.is_idempotent:
        words.append("idempotence")
    elif producer.retries:
        words.append("retries")
    words.append(f"{topic.replicas} replicas" if topic.replicas > 1 else "1 replica")
    words.append(f"min.insync.replicas={topic.min_insync}")
    if topic.is_synced:
        words.append("flush.messages=1")
    if consumer is not None:
        isolation = "read_committed" if consumer.is_read_committed else "read_uncommitted"
        words.append(f"{consumer.commit.value.replace('-', ' ')}, {isolation}")
    return f"{', '.join(words)}: {fault.value.replace('-', ' ')} (seed {scenario.seed})"
