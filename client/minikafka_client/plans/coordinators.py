"""Plans that have to find the coordinator of a group first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from minikafka.protocol.messages import find_coordinator
from minikafka.protocol.schema import Response
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import KafkaError, broker_error
from minikafka_client.plans.plan import ANY_BROKER, Call, Plan, call_all, call_nodes
from minikafka_client.types import BrokerDescription

GROUP_KEY_TYPE = 0
TRANSACTION_KEY_TYPE = 1

_Value = TypeVar("_Value")
_Response = TypeVar("_Response", bound=Response)


def find_coordinators(
    cluster: Cluster, keys: Sequence[str], key_type: int = GROUP_KEY_TYPE
) -> Plan[dict[str, int | KafkaError]]:
    """Look up the node of each group's coordinator; one call each, which every version has."""
    calls = [
        Call(
            ANY_BROKER,
            find_coordinator.Request(key=key, key_type=key_type, coordinator_keys=[key]),
            version_min=0 if key_type == GROUP_KEY_TYPE else 1,
        )
        for key in keys
    ]
    answers = yield from call_all(calls, find_coordinator.Response)
    return {
        key: answer if isinstance(answer, KafkaError) else coordinator_of(cluster, key, answer)
        for key, answer in zip(keys, answers, strict=True)
    }


def coordinator_of(
    cluster: Cluster, key: str, response: find_coordinator.Response
) -> int | KafkaError:
    """Read any version of the answer; the cluster learns where the coordinator listens."""
    subject = f"coordinator of {key!r}"
    # From version 4 on there is a list of coordinators (KIP-699).
    entry = response.coordinators[0] if response.coordinators else response
    if entry.error_code:
        return broker_error(entry.error_code, subject, entry.error_message)
    cluster.learn_broker(BrokerDescription(entry.node_id, entry.host, entry.port))
    return entry.node_id


def at_coordinators(
    cluster: Cluster,
    group_ids: Sequence[str],
    make_call: Callable[[int, Sequence[str]], Call],
    response_type: type[_Response],
    read: Callable[[int, _Response], Mapping[str, _Value | KafkaError]],
    key_type: int = GROUP_KEY_TYPE,
) -> Plan[Mapping[str, _Value | KafkaError]]:
    """Attempt: find the groups' coordinators, then one call to each of them."""
    outcome: dict[str, _Value | KafkaError] = {}
    by_node: dict[int, list[str]] = {}
    found = yield from find_coordinators(cluster, group_ids, key_type)
    for group_id, node in found.items():
        if isinstance(node, KafkaError):
            outcome[group_id] = node
        else:
            by_node.setdefault(node, []).append(group_id)
    yield from call_nodes(by_node, make_call, response_type, read, outcome)
    return outcome
