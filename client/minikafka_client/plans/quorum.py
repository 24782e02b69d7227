"""Plans about the metadata quorum: who votes, how far each replica is, and changes of the voters.

AddRaftVoter, RemoveRaftVoter and UpdateFeatures are sent once to a controller: what may succeed
later is retried by it, as long as the request allows. NOT_CONTROLLER says that nothing happened, so
another one is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fields import ZERO_UUID
from minikafka.protocol.messages import (
    add_raft_voter as add_raft_voter_api,
)
from minikafka.protocol.messages import (
    describe_quorum as describe_quorum_api,
)
from minikafka.protocol.messages import (
    remove_raft_voter as remove_raft_voter_api,
)
from minikafka.protocol.messages import (
    update_features as update_features_api,
)
from minikafka.protocol.schema import Request
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import KafkaError, UnreadableResponseError, broker_error
from minikafka_client.plans.plan import ANY_BROKER, Plan, call
from minikafka_client.plans.rounds import in_rounds
from minikafka_client.types import QuorumDescription, QuorumReplica

_TOPIC: Final = "__cluster_metadata"
_SUBJECT: Final = "the metadata quorum"
_ANSWER_MS: Final = 5_000
"""How much longer the answer may take than the change."""


def describe_metadata_quorum(cluster: Cluster) -> Plan[QuorumDescription]:
    """Say who votes on the metadata of the cluster, and how far each replica of it is."""
    del cluster

    def attempt(_keys: Sequence[None]) -> Plan[Mapping[None, QuorumDescription | KafkaError]]:
        asked = describe_quorum_api.TopicDataRequest(
            topic_name=_TOPIC,
            partitions=[describe_quorum_api.PartitionDataRequest(partition_index=0)],
        )
        request = describe_quorum_api.Request(topics=[asked])
        answer = yield from call(ANY_BROKER, request, describe_quorum_api.Response)
        return {None: _description(answer)}

    described = yield from in_rounds([None], attempt)
    return described[None]


def _description(answer: describe_quorum_api.Response) -> QuorumDescription | KafkaError:
    if answer.error_code:
        return broker_error(answer.error_code, _SUBJECT, answer.error_message)
    found = [one for topic in answer.topics for one in topic.partitions]
    if not found:
        return UnreadableResponseError("the broker's answer leaves out what was asked for")
    quorum = found[0]
    if quorum.error_code:
        return broker_error(quorum.error_code, _SUBJECT, quorum.error_message)
    return QuorumDescription(
        quorum.leader_id,
        quorum.leader_epoch,
        quorum.high_watermark,
        tuple(map(_replica, quorum.current_voters)),
        tuple(map(_replica, quorum.observers)),
    )


def _replica(state: describe_quorum_api.ReplicaState) -> QuorumReplica:
    directory_id = state.replica_directory_id
    return QuorumReplica(
        state.replica_id,
        b"" if directory_id == ZERO_UUID else directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )


def add_raft_voter(
    cluster: Cluster,
    voter_id: int,
    directory_id: bytes,
    endpoints: Mapping[str, tuple[str, int]],
    *,
    timeout_ms: int = 30_000,
) -> Plan[None]:
    """Let a node that observes the metadata quorum vote in it (KIP-853).

    Args:
        cluster: where.
        voter_id: the node.
        directory_id: of its data directory, 16 bytes; `describe_metadata_quorum` has it.
        endpoints: the node's addresses by the name of their listener. Kafka requires that of the
            controllers' listener; without any, minikafka takes the address that the node uses.
        timeout_ms: how long the node may take to catch up, and the change to be committed.

    Raises:
        BrokerError: DUPLICATE_VOTER; UNSUPPORTED_VERSION while ``kraft.version`` is 0;
            REQUEST_TIMED_OUT when it is not caught up.
    """
    request = add_raft_voter_api.Request(
        cluster_id=cluster.cluster_id,
        timeout_ms=timeout_ms,
        voter_id=voter_id,
        voter_directory_id=directory_id,
        listeners=[
            add_raft_voter_api.Listener(name=name, host=host, port=port)
            for name, (host, port) in endpoints.items()
        ],
    )
    yield from _change(
        request, add_raft_voter_api.Response, voter_id, timeout_ms=timeout_ms + _ANSWER_MS
    )


def remove_raft_voter(cluster: Cluster, voter_id: int, directory_id: bytes) -> Plan[None]:
    """Take the vote in the metadata quorum from a node (KIP-853); it goes on as an observer.

    Args:
        cluster: where.
        voter_id: the node.
        directory_id: of its data directory, 16 bytes; `describe_metadata_quorum` has it.

    Raises:
        BrokerError: VOTER_NOT_FOUND; UNSUPPORTED_VERSION while ``kraft.version`` is 0.
    """
    request = remove_raft_voter_api.Request(
        cluster_id=cluster.cluster_id, voter_id=voter_id, voter_directory_id=directory_id
    )
    yield from _change(request, remove_raft_voter_api.Response, voter_id)


def _change(
    request: Request,
    response: type[add_raft_voter_api.Response | remove_raft_voter_api.Response],
    voter_id: int,
    *,
    timeout_ms: int | None = None,
) -> Plan[None]:
    """Ask controllers until one has tried."""

    def attempt(_keys: Sequence[None]) -> Plan[Mapping[None, KafkaError | None]]:
        answer = yield from call(ANY_BROKER, request, response, timeout_ms=timeout_ms)
        if not answer.error_code:
            return {None: None}
        return {None: broker_error(answer.error_code, f"voter {voter_id}", answer.error_message)}

    yield from in_rounds(
        [None], attempt, should_retry=lambda error: error.code is ErrorCode.NOT_CONTROLLER
    )


def update_features(cluster: Cluster, levels: Mapping[str, int]) -> Plan[None]:
    """Raise features of the cluster to levels by their names, all of them or none (KIP-584).

    Raises:
        BrokerError: INVALID_UPDATE_VERSION when a feature cannot have its level.
    """
    del cluster
    request = update_features_api.Request(
        feature_updates=[
            update_features_api.FeatureUpdateKey(feature=name, max_version_level=level)
            for name, level in levels.items()
        ]
    )
    answer = yield from call(ANY_BROKER, request, update_features_api.Response)
    failed = [one for one in answer.results if one.error_code]
    if answer.error_code:
        raise broker_error(answer.error_code, ", ".join(levels), answer.error_message)
    if failed:
        raise broker_error(failed[0].error_code, failed[0].feature, failed[0].error_message)
