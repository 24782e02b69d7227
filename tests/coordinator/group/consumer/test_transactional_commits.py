"""TxnOffsetCommit by members of consumer groups: their epochs fence them (KIP-447, KIP-848)."""

from __future__ import annotations

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import txn_offset_commit
from tests.coordinator.group.consumer.consumer_shell import ConsumerShell, World
from tests.coordinator.group.harness import GROUP, Call


@pytest.fixture
def shell() -> ConsumerShell:
    return ConsumerShell(World(flights=6))


def commit(shell: ConsumerShell, member_id: str, epoch: int, version: int = 6) -> ErrorCode:
    call: Call[txn_offset_commit.Response] = Call()
    request = txn_offset_commit.Request(
        transactional_id="job",
        group_id=GROUP,
        producer_id=7,
        producer_epoch=0,
        generation_id=epoch,
        member_id=member_id,
        topics=[
            txn_offset_commit.RequestTopic(
                name="flights",
                partitions=[
                    txn_offset_commit.RequestPartition(
                        partition_index=0, committed_offset=5, committed_metadata=None
                    )
                ],
            )
        ],
    )
    shell.ask(request, version, call)
    return ErrorCode(call.response.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", [3, 5, 6])
def test_a_member_commits_in_its_epoch(shell: ConsumerShell, version: int) -> None:
    epoch = shell.join_consumers("A", "flights")
    assert commit(shell, "A", epoch, version) is ErrorCode.NONE


def test_a_member_of_an_older_epoch_is_fenced(shell: ConsumerShell) -> None:
    shell.join_consumers("A", "flights")
    epoch = shell.join_consumers("B", "flights")
    assert commit(shell, "B", epoch - 1) is ErrorCode.ILLEGAL_GENERATION
    assert commit(shell, "B", epoch) is ErrorCode.NONE
    assert commit(shell, "A", epoch) is ErrorCode.ILLEGAL_GENERATION  # it has not revoked yet


def test_strangers_are_fenced_as_long_as_there_are_members(shell: ConsumerShell) -> None:
    epoch = shell.join_consumers("A", "flights")
    assert commit(shell, "C", epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(shell, "", -1) is ErrorCode.NONE  # before KIP-447 nobody said who it is
    shell.beat("A", -1)
    assert commit(shell, "A", epoch) is ErrorCode.UNKNOWN_MEMBER_ID
