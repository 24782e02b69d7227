"""What a transactional producer asks coordinators, and what it makes of their answers."""

from __future__ import annotations

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from minikafka.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from minikafka.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from minikafka_client.core.transaction import TransactionMachine
from minikafka_client.errors import BrokerError, CommitUnknownError, ConnectionLostError
from minikafka_client.plans.coordinators import GROUP_KEY_TYPE, TRANSACTION_KEY_TYPE
from minikafka_client.plans.transactions import (
    Coordinator,
    Identity,
    add_offsets,
    add_partitions,
    commit_offsets_in_transaction,
    end_transaction,
    init_producer,
    read_transaction_version,
)
from minikafka_client.types import GroupMetadata, OffsetAndMetadata, TopicPartition
from tests.client.plans.scripted import Script

NEW = Identity("id")
KNOWN = Identity("id", 7, 3)
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def coordinator() -> Coordinator:
    return Coordinator("id", TRANSACTION_KEY_TYPE)


def versions(produce: int = 12, level: int | None = 2) -> ApiVersionsResponse:
    features = [FinalizedFeatureKey(name="other", max_version_level=9, min_version_level=1)]
    if level is not None:
        features.append(
            FinalizedFeatureKey(
                name="transaction.version", max_version_level=level, min_version_level=level
            )
        )
    return ApiVersionsResponse(
        error_code=0,
        api_keys=[
            ApiVersion(api_key=key, min_version=0, max_version=last)
            for key, last in ((0, produce), (26, 5), (28, 5))
        ],
        finalized_features=features,
    )


def granted(producer_id: int = 7, producer_epoch: int = 0) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=0, producer_id=producer_id, producer_epoch=producer_epoch
    )


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (versions(), 2),
        (versions(level=3), 2),
        (versions(level=1), 0),
        (versions(level=None), 0),
        (versions(produce=11), 0),
        (ApiVersionsResponse(error_code=0, api_keys=[]), 0),
    ],
)
def test_version_2_is_what_cluster_and_brokers_have(
    response: ApiVersionsResponse, expected: int
) -> None:
    assert read_transaction_version(response) == expected


def test_a_producer_begins_at_its_coordinator() -> None:
    script = Script()
    script.coordinators["id"] = 1
    script.on(InitProducerIdRequest, granted())
    script.on(ApiVersionsRequest, versions())
    found = script.run(lambda cluster: init_producer(cluster, coordinator(), NEW, 60_000))
    assert found == (Identity("id", 7, 0), 2)
    [asked] = script.asked(FindCoordinatorRequest)
    assert (asked.key, asked.key_type) == ("id", TRANSACTION_KEY_TYPE)
    assert {call.node for call in script.calls[1:]} == {1}
    assert script.calls[1].version_min == 0


def test_a_new_epoch_needs_a_broker_that_knows_of_them() -> None:
    script = Script()
    script.on(InitProducerIdRequest, granted(7, 4))
    script.on(ApiVersionsRequest, versions(level=None))
    found = script.run(lambda cluster: init_producer(cluster, coordinator(), KNOWN, 60_000))
    assert found == (Identity("id", 7, 4), 0)
    assert script.calls[1].version_min == 3


def test_what_passes_is_waited_for() -> None:
    script = Script()
    refused = [
        InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
        for code in (
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_COORDINATOR,
        )
    ]
    script.on(InitProducerIdRequest, *refused, granted())
    script.on(ApiVersionsRequest, versions())
    where = coordinator()
    script.run(lambda cluster: init_producer(cluster, where, NEW, 60_000))
    assert len(script.asked(InitProducerIdRequest)) == 4
    assert script.pauses == [0, 1]  # and a short one, while the transaction before is ended
    assert len(script.asked(FindCoordinatorRequest)) == 2  # again, because it has moved
    assert not where.is_unanswered


def test_a_transaction_before_that_does_not_end_is_asked_for_less_often() -> None:
    script = Script(retries_max=1)
    code = ErrorCode.CONCURRENT_TRANSACTIONS
    script.on(EndTxnRequest, EndTxnResponse(error_code=code, producer_epoch=-1))
    with pytest.raises(BrokerError) as caught:
        script.run(
            lambda cluster: end_transaction(
                cluster, coordinator(), KNOWN, commits=True, has_own_epochs=False
            )
        )
    assert caught.value.code is code
    assert script.pauses == [0, 1]


def test_what_is_final_is_raised_at_once() -> None:
    script = Script()
    code = ErrorCode.PRODUCER_FENCED
    script.on(InitProducerIdRequest, InitProducerIdResponse(error_code=code, producer_epoch=-1))
    with pytest.raises(BrokerError) as caught:
        script.run(lambda cluster: init_producer(cluster, coordinator(), KNOWN, 60_000))
    assert caught.value.code is code
    assert script.pauses == []


@pytest.mark.parametrize("has_own_epochs", [False, True])
@pytest.mark.parametrize("commits", [False, True])
def test_the_end_names_the_next_identity(has_own_epochs: bool, commits: bool) -> None:
    script = Script()
    script.on(EndTxnRequest, EndTxnResponse(error_code=0, producer_id=7, producer_epoch=4))
    following = script.run(
        lambda cluster: end_transaction(
            cluster, coordinator(), KNOWN, commits=commits, has_own_epochs=has_own_epochs
        )
    )
    assert following == Identity("id", 7, 4)
    [asked] = script.asked(EndTxnRequest)
    assert (asked.producer_id, asked.producer_epoch, asked.committed) == (7, 3, commits)
    call = script.calls[-1]
    assert (call.version_min, min(call.version_max, 5)) == ((5, 5) if has_own_epochs else (0, 4))


@pytest.mark.parametrize(
    "lost", [ConnectionLostError("lost"), EndTxnResponse(error_code=7, producer_epoch=-1)]
)
def test_an_end_that_was_never_answered_is_remembered(
    lost: ConnectionLostError | EndTxnResponse,
) -> None:
    script = Script()
    refused = EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED, producer_epoch=-1)
    script.on(EndTxnRequest, lost, refused)
    where = coordinator()
    with pytest.raises(BrokerError):
        script.run(
            lambda cluster: end_transaction(
                cluster, where, KNOWN, commits=True, has_own_epochs=True
            )
        )
    assert where.is_unanswered


def test_a_coordinator_that_cannot_be_found_has_heard_nothing() -> None:
    script = Script(retries_max=0)
    script.on(FindCoordinatorRequest, ConnectionLostError("lost"))
    where = coordinator()
    with pytest.raises(ConnectionLostError):
        script.run(
            lambda cluster: end_transaction(
                cluster, where, KNOWN, commits=True, has_own_epochs=True
            )
        )
    assert not where.is_unanswered


def added(*codes: int) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        for index, code in enumerate(codes)
    ]
    topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])


def test_partitions_are_added_again_until_all_are() -> None:
    script = Script()
    not_tried = ErrorCode.OPERATION_NOT_ATTEMPTED
    script.on(
        AddPartitionsToTxnRequest,
        added(not_tried, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        added(0, 0),
    )
    script.run(lambda cluster: add_partitions(cluster, coordinator(), KNOWN, [P1, P0]))
    asked = script.asked(AddPartitionsToTxnRequest)
    assert len(asked) == 2
    assert asked[0].v3_and_below_topics[0].partitions == [0, 1]
    assert script.calls[-1].version_max == 3


def test_the_refusal_that_says_most_is_raised() -> None:
    script = Script()
    not_tried = ErrorCode.OPERATION_NOT_ATTEMPTED
    script.on(AddPartitionsToTxnRequest, added(not_tried, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(BrokerError) as caught:
        script.run(lambda cluster: add_partitions(cluster, coordinator(), KNOWN, [P0, P1]))
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_group_is_added_by_its_name() -> None:
    script = Script()
    script.on(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse(error_code=0))
    script.run(lambda cluster: add_offsets(cluster, coordinator(), KNOWN, "g"))
    [asked] = script.asked(AddOffsetsToTxnRequest)
    assert (asked.transactional_id, asked.group_id, asked.producer_epoch) == ("id", "g", 3)


def committed(*codes: int) -> TxnOffsetCommitResponse:
    partitions = [
        TxnOffsetCommitResponsePartition(partition_index=index, error_code=code)
        for index, code in enumerate(codes)
    ]
    return TxnOffsetCommitResponse(
        topics=[TxnOffsetCommitResponseTopic(name="t", partitions=partitions)]
    )


@pytest.mark.parametrize(
    ("group", "has_own_epochs", "expected"),
    [
        (GroupMetadata("g"), False, (0, 4)),
        (GroupMetadata("g", 3, "m"), False, (3, 4)),
        (GroupMetadata("g", 3, "m"), True, (5, 5)),
    ],
)
def test_offsets_go_to_the_groups_coordinator(
    group: GroupMetadata, has_own_epochs: bool, expected: tuple[int, int]
) -> None:
    script = Script()
    script.on(
        TxnOffsetCommitRequest, committed(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), committed(0)
    )
    offsets: dict[TopicPartition, OffsetAndMetadata | int] = {
        P0: 5,
        P1: OffsetAndMetadata(6, "text", 2),
    }
    script.run(
        lambda cluster: commit_offsets_in_transaction(
            cluster,
            Coordinator("g", GROUP_KEY_TYPE),
            KNOWN,
            group,
            offsets,
            has_own_epochs=has_own_epochs,
        )
    )
    asked = script.asked(TxnOffsetCommitRequest)[-1]
    assert (asked.group_id, asked.generation_id, asked.member_id) == (
        group.group_id,
        group.generation_id,
        group.member_id,
    )
    first, second = asked.topics[0].partitions
    assert (first.committed_offset, first.committed_leader_epoch) == (5, -1)
    assert (second.committed_offset, second.committed_leader_epoch) == (6, 2)
    call = script.calls[-1]
    assert (call.version_min, min(call.version_max, 5)) == expected


def test_an_offset_that_is_refused_for_good_is_raised() -> None:
    script = Script()
    script.on(
        TxnOffsetCommitRequest,
        committed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION),
    )
    with pytest.raises(BrokerError) as caught:
        script.run(
            lambda cluster: commit_offsets_in_transaction(
                cluster,
                Coordinator("g", GROUP_KEY_TYPE),
                KNOWN,
                GroupMetadata("g", 3, "m"),
                {P0: 1, P1: 1},
                has_own_epochs=True,
            )
        )
    assert caught.value.code is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR])
def test_a_coordinator_that_lost_its_place_may_have_stored_the_commit(code: ErrorCode) -> None:
    """It says so to all whose decision is in its log, and its successor may have that, too."""
    script = Script()
    script.coordinators["id"] = 1
    script.on(EndTxnRequest, EndTxnResponse(error_code=code))
    where = coordinator()
    machine = TransactionMachine("id")
    machine.granted(7, 3, 2)
    machine.begin()
    machine.has_begun = True
    machine.commit()
    with pytest.raises(BrokerError) as caught:
        script.run(
            lambda cluster: end_transaction(
                cluster, where, KNOWN, commits=True, has_own_epochs=True
            )
        )
    machine.commit_refused(caught.value, is_in_doubt=where.is_unanswered)
    assert isinstance(machine.error, CommitUnknownError)
