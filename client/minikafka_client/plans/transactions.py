"""Plans for a producer's transactions and their coordinators (KIP-98)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)
from minikafka.protocol.schema import Response
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.transaction import EPOCH_PER_TRANSACTION
from minikafka_client.core.versions import broker_versions
from minikafka_client.errors import KafkaError, broker_error
from minikafka_client.plans.coordinators import find_coordinators
from minikafka_client.plans.handshake import CLIENT_SOFTWARE_NAME, CLIENT_SOFTWARE_VERSION
from minikafka_client.plans.plan import Call, Pause, Plan, RetryPause
from minikafka_client.plans.rounds import by_topic
from minikafka_client.types import GroupMetadata, OffsetAndMetadata, TopicPartition

_Response = TypeVar("_Response", bound=Response)

_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})

_UNDECIDED: Final = _MOVED | {ErrorCode.REQUEST_TIMED_OUT}
"""After these errors the request may still be carried out: it may be in the log already."""

_SHORT_PAUSE_S: Final = 0.02
_SHORT_PAUSES: Final = 10
"""How many quick retries a coordinator gets while it ends the previous transaction."""

_TRANSACTION_VERSION: Final = "transaction.version"
_NEEDED_VERSIONS: Final[Mapping[int, int]] = {
    ApiKey.PRODUCE: 12,
    ApiKey.END_TXN: 5,
    ApiKey.TXN_OFFSET_COMMIT: 5,
}
"""What the brokers of transaction version 2 speak (KIP-890)."""


class Identity(NamedTuple):
    transactional_id: str
    producer_id: int = -1
    producer_epoch: int = -1


class Coordinator:
    """The cached location of a coordinator.

    ``is_unanswered``: the last request, or one that it repeats, may have been carried out although
    its answer was lost.
    """

    def __init__(self, key: str, key_type: int) -> None:
        self.key = key
        self.key_type = key_type
        self.node: int | None = None
        self.is_unanswered = False

    def find(self, cluster: Cluster) -> Plan[int]:
        """Where it is; asks if that is not known."""
        if self.node is None:
            found = (yield from find_coordinators(cluster, [self.key], self.key_type))[self.key]
            if isinstance(found, KafkaError):
                raise found
            self.node = found
        return self.node

    def ask(
        self,
        cluster: Cluster,
        make_call: Callable[[int], Call],
        response_type: type[_Response],
        read: Callable[[_Response], KafkaError | None],
    ) -> Plan[_Response]:
        """Ask it until it answers with anything but an error that passes.

        Raises:
            KafkaError: it refused, or the plan's time is over.
        """
        self.is_unanswered = False
        attempt = concurrent = 0
        while True:
            is_sent = False
            try:
                node = yield from self.find(cluster)
                is_sent = True
                response = yield make_call(node)
            except KafkaError as failure:
                self.node = None
                self.is_unanswered = self.is_unanswered or is_sent
                error: KafkaError | None = failure
            else:
                assert isinstance(response, response_type)
                error = read(response)
                if error is None:
                    return response
                if error.code in _MOVED:
                    self.node = None
                if error.code in _UNDECIDED:
                    self.is_unanswered = True
            assert error is not None
            if not error.is_retriable:
                raise error
            if error.code is ErrorCode.CONCURRENT_TRANSACTIONS and concurrent < _SHORT_PAUSES:
                concurrent += 1
                yield Pause(_SHORT_PAUSE_S)
                continue
            yield RetryPause(attempt, error)
            attempt += 1


def read_transaction_version(response: api_versions.Response) -> int:
    """The transaction version that the cluster has agreed on, if its brokers speak it."""
    versions = broker_versions(response)
    for needed, version in _NEEDED_VERSIONS.items():
        if needed not in versions or versions[needed].last < version:
            return 0
    for feature in response.finalized_features:
        if feature.name == _TRANSACTION_VERSION:
            return EPOCH_PER_TRANSACTION if feature.max_version_level >= 2 else 0
    return 0


def ask_transaction_version(cluster: Cluster, coordinator: Coordinator) -> Plan[int]:
    """The transaction version that a coordinator uses now."""
    about = api_versions.Request(
        client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=CLIENT_SOFTWARE_VERSION
    )
    spoken = yield from coordinator.ask(
        cluster,
        lambda node: Call(node, about),
        api_versions.Response,
        lambda answer: _error(answer.error_code, "ApiVersions of the coordinator"),
    )
    return read_transaction_version(spoken)


def init_producer(
    cluster: Cluster, coordinator: Coordinator, identity: Identity, transaction_timeout_ms: int
) -> Plan[tuple[Identity, int]]:
    """Get a producer id (or, given one, a new epoch), and the transaction version.

    Waits until the transaction that an older producer has left open is ended.

    Raises:
        KafkaError: the coordinator refused, or could not be asked in time.
    """
    request = init_producer_id.Request(
        transactional_id=identity.transactional_id,
        transaction_timeout_ms=transaction_timeout_ms,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
    )
    version_min = 3 if identity.producer_id >= 0 else 0
    subject = f"a producer id for transactional_id {identity.transactional_id!r}"
    response = yield from coordinator.ask(
        cluster,
        lambda node: Call(node, request, version_min),
        init_producer_id.Response,
        lambda answer: _error(answer.error_code, subject),
    )
    version = yield from ask_transaction_version(cluster, coordinator)
    granted = identity._replace(
        producer_id=response.producer_id, producer_epoch=response.producer_epoch
    )
    return granted, version


def add_partitions(
    cluster: Cluster,
    coordinator: Coordinator,
    identity: Identity,
    partitions: Iterable[TopicPartition],
) -> Plan[None]:
    """Add partitions to the transaction at its coordinator (before version 2)."""
    request = add_partitions_to_txn.Request(
        v3_and_below_transactional_id=identity.transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[
            add_partitions_to_txn.Topic(name=topic, partitions=indexes)
            for topic, indexes in by_topic(sorted(partitions)).items()
        ],
    )
    yield from coordinator.ask(
        cluster,
        lambda node: Call(node, request, version_max=3),
        add_partitions_to_txn.Response,
        _partitions_error,
    )


def _partitions_error(response: add_partitions_to_txn.Response) -> KafkaError | None:
    """The first refusal that says more than that another partition was refused."""
    errors = [
        broker_error(
            partition.partition_error_code,
            f"partition {partition.partition_index} of topic {topic.name!r} in the transaction",
        )
        for topic in response.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
        if partition.partition_error_code
    ]
    errors.sort(key=lambda error: error.code is ErrorCode.OPERATION_NOT_ATTEMPTED)
    return errors[0] if errors else None


def add_offsets(
    cluster: Cluster, coordinator: Coordinator, identity: Identity, group_id: str
) -> Plan[None]:
    """Add a group's offsets to the transaction at its coordinator (before version 2)."""
    request = add_offsets_to_txn.Request(
        transactional_id=identity.transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        group_id=group_id,
    )
    yield from coordinator.ask(
        cluster,
        lambda node: Call(node, request),
        add_offsets_to_txn.Response,
        lambda answer: _error(answer.error_code, f"offsets of {group_id!r} in the transaction"),
    )


def commit_offsets_in_transaction(
    cluster: Cluster,
    coordinator: Coordinator,
    identity: Identity,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
    *,
    has_own_epochs: bool,
) -> Plan[None]:
    """Commit offsets that count when the transaction does; ``coordinator`` is the group's."""
    request = txn_offset_commit.Request(
        transactional_id=identity.transactional_id,
        group_id=group.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[
            txn_offset_commit.RequestTopic(
                name=topic,
                partitions=[
                    _commit_of(index, offsets[TopicPartition(topic, index)]) for index in indexes
                ],
            )
            for topic, indexes in by_topic(offsets).items()
        ],
    )
    # Only from version 3 on does the group look whether the member is still one (KIP-447).
    oldest = 3 if group.generation_id >= 0 or group.member_id else 0
    # Version 6 names topics by their ids only (KIP-1319), and offsets are given by name here.
    version_min, version_max = (5, 5) if has_own_epochs else (oldest, 4)
    yield from coordinator.ask(
        cluster,
        lambda node: Call(node, request, version_min, version_max),
        txn_offset_commit.Response,
        lambda answer: _offsets_error(group.group_id, answer),
    )


def _commit_of(index: int, commit: OffsetAndMetadata | int) -> txn_offset_commit.RequestPartition:
    if isinstance(commit, int):
        commit = OffsetAndMetadata(commit)
    return txn_offset_commit.RequestPartition(
        partition_index=index,
        committed_offset=commit.offset,
        committed_leader_epoch=commit.leader_epoch,
        committed_metadata=commit.metadata,
    )


def _offsets_error(group_id: str, response: txn_offset_commit.Response) -> KafkaError | None:
    errors = [
        broker_error(
            partition.error_code,
            f"offset of partition {partition.partition_index} of topic {topic.name!r} for group "
            f"{group_id!r}",
        )
        for topic in response.topics
        for partition in topic.partitions
        if partition.error_code
    ]
    errors.sort(key=lambda error: error.is_retriable)
    return errors[0] if errors else None


def end_transaction(
    cluster: Cluster,
    coordinator: Coordinator,
    identity: Identity,
    *,
    commits: bool,
    has_own_epochs: bool,
) -> Plan[Identity]:
    """Commit or abort; returns the identity of the next transaction (-1: the same)."""
    request = end_txn.Request(
        transactional_id=identity.transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        committed=commits,
    )
    version_min, version_max = (5, 32767) if has_own_epochs else (0, 4)
    what = "the commit" if commits else "the abort"
    subject = f"{what} of the transaction of {identity.transactional_id!r}"
    response = yield from coordinator.ask(
        cluster,
        lambda node: Call(node, request, version_min, version_max),
        end_txn.Response,
        lambda answer: _error(answer.error_code, subject),
    )
    return identity._replace(
        producer_id=response.producer_id, producer_epoch=response.producer_epoch
    )


def _error(code: int, subject: str) -> KafkaError | None:
    return broker_error(code, subject) if code else None
