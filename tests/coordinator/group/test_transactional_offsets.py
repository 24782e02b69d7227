"""Offsets committed in transactions (KIP-98, KIP-447)."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from minikafka.coordinator.group import Append, Effect, GroupConfig, GroupShard, Now
from minikafka.coordinator.group.pending_offsets import EndedOffsets
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import txn_offset_commit
from tests.coordinator.group.harness import GROUP, TOPIC, Call, Shell

OK = ErrorCode.NONE
DAY_MS = 86_400_000


@dataclass
class Marker:
    """A transaction marker in the log."""

    producer_id: int
    commits: bool


class TransactionalShell(Shell):
    """A shell whose log has transactional batches and markers, too."""

    def __init__(self, **settings: Any) -> None:
        self.entries: list[tuple[bytes, bytes | None, int] | Marker] = []
        self.producer_id = -1
        super().__init__(**settings)

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.producer_id = effect.producer_id
                if self.append_error is OK:
                    self.entries += [
                        (key, value, self.producer_id) for key, value in effect.records
                    ]
            super().carry_out([effect])

    def commit_in_transaction(
        self, offset: int, producer_id: int = 7, partition: int = 0, **fields: Any
    ) -> Call[txn_offset_commit.Response]:
        call: Call[txn_offset_commit.Response] = Call()
        request = txn_offset_commit.Request(
            transactional_id="job",
            group_id=fields.pop("group", GROUP),
            producer_id=producer_id,
            producer_epoch=0,
            topics=[
                txn_offset_commit.RequestTopic(
                    name=TOPIC,
                    partitions=[
                        txn_offset_commit.RequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_metadata=fields.pop("metadata", None),
                        )
                    ],
                )
            ],
            **fields,
        )
        self.ask(request, 3, call)
        return call

    def append_marker(self, producer_id: int = 7, *, commits: bool = True) -> EndedOffsets:
        self.entries.append(Marker(producer_id, commits))
        return self.shard.marker_appended(producer_id)

    def end(self, producer_id: int = 7, *, commits: bool = True) -> None:
        """A marker that is committed immediately."""
        self.shard.marker_committed(
            self.append_marker(producer_id, commits=commits), commits=commits
        )

    def reload(self) -> None:
        """The next coordinator loads the log."""
        self.carry_out(self.shard.resigned())
        self.uncommitted.clear()
        self.shard = GroupShard(GroupConfig(**self.settings), new_id=lambda: "x")
        for entry in self.entries:
            if isinstance(entry, Marker):
                self.shard.replay_marker(entry.producer_id, commits=entry.commits)
            else:
                self.shard.replay(*entry)
        self.carry_out(self.shard.loaded(self.now))

    def stable(self, partition: int = 0, *, asks_all: bool = False) -> int | ErrorCode:
        """The answer for a reader that requires stable offsets."""
        topics = None if asks_all else {TOPIC: [partition]}
        found = self.shard.offset_fetch(GROUP, topics, require_stable=True).topics[0].partitions
        (one,) = [each for each in found if each.partition_index == partition]
        return one.committed_offset if one.error_code == 0 else ErrorCode(one.error_code)


def error_of(call: Call[txn_offset_commit.Response]) -> ErrorCode:
    return ErrorCode(call.response.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("commits", [True, False])
def test_an_offset_counts_when_its_transaction_is_committed(commits: bool) -> None:
    shell = TransactionalShell()
    assert shell.commit(5) is OK
    assert error_of(shell.commit_in_transaction(9)) is OK
    assert shell.producer_id == 7
    assert shell.offset() == 5
    shell.end(commits=commits)
    assert shell.offset() == (9 if commits else 5)
    shell.reload()
    assert shell.offset() == (9 if commits else 5)


def test_readers_of_stable_offsets_get_a_retriable_error() -> None:
    shell = TransactionalShell()
    shell.commit(5)
    assert shell.stable() == 5
    shell.commit_in_transaction(9)
    shell.commit_in_transaction(1, partition=3)
    for asks_all in (False, True):
        assert shell.stable(asks_all=asks_all) is ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert shell.stable(3, asks_all=asks_all) is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert shell.stable(4) == -1
    ended = shell.append_marker()
    assert shell.stable() is ErrorCode.UNSTABLE_OFFSET_COMMIT  # the marker may still be lost
    shell.shard.marker_committed(ended, commits=True)
    assert shell.stable() == 9
    assert shell.stable(3, asks_all=True) == 1


def test_the_next_transaction_begins_after_the_marker() -> None:
    shell = TransactionalShell()
    shell.commit_in_transaction(1)
    first = shell.append_marker(commits=True)
    shell.commit_in_transaction(2)
    shell.shard.marker_committed(first, commits=True)
    assert shell.offset() == 1
    shell.end(commits=False)
    assert shell.offset() == 1


def test_the_last_append_wins() -> None:
    shell = TransactionalShell()
    shell.commit_in_transaction(1, producer_id=1)
    shell.commit_in_transaction(2, producer_id=2)
    shell.commit(3)
    shell.end(1)
    assert shell.offset() == 3
    shell.commit_in_transaction(4, producer_id=3)
    shell.commit_in_transaction(5, producer_id=4)
    shell.end(4)
    assert shell.offset() == 5
    shell.end(3)
    assert shell.offset() == 5
    shell.end(2)
    assert shell.offset() == 5
    shell.commit_in_transaction(6, producer_id=3)
    shell.commit_in_transaction(7, producer_id=4)
    shell.end(3)
    assert shell.offset() == 6
    assert shell.stable() is ErrorCode.UNSTABLE_OFFSET_COMMIT
    shell.end(4)
    assert shell.offset() == 7


def test_a_producer_may_commit_an_offset_again() -> None:
    shell = TransactionalShell()
    shell.commit_in_transaction(1)
    shell.commit_in_transaction(2)
    shell.end()
    assert shell.stable() == 2


def test_only_the_current_generation_commits() -> None:
    shell = TransactionalShell()
    generation, (member, *_) = shell.stable_group()
    named: dict[str, Any] = {"member_id": member, "generation_id": generation}
    assert error_of(shell.commit_in_transaction(1, **named)) is OK
    stale = shell.commit_in_transaction(1, **{**named, "generation_id": generation - 1})
    assert error_of(stale) is ErrorCode.ILLEGAL_GENERATION
    stranger = shell.commit_in_transaction(1, **{**named, "member_id": "x"})
    assert error_of(stranger) is ErrorCode.UNKNOWN_MEMBER_ID
    # A client from before KIP-447 names no member.
    assert error_of(shell.commit_in_transaction(1)) is OK


def test_unknown_groups_are_refused() -> None:
    shell = TransactionalShell()
    unknown = shell.commit_in_transaction(1, group="new", member_id="m", generation_id=3)
    assert error_of(unknown) is ErrorCode.ILLEGAL_GENERATION
    simple = shell.commit_in_transaction(1, group="new", member_id="m")
    assert error_of(simple) is OK
    shell.end()
    assert shell.offset(group="new") == 1


def test_too_large_metadata_is_refused() -> None:
    shell = TransactionalShell(offset_metadata_size_bytes_max=3)
    call = shell.commit_in_transaction(1, metadata="long")
    assert error_of(call) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert shell.entries == []


def test_a_failed_write_is_an_error() -> None:
    shell = TransactionalShell()
    shell.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert error_of(shell.commit_in_transaction(1)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    shell.append_error = OK
    shell.end()
    assert shell.stable() == -1


def test_a_resigned_coordinator_forgets_pending_offsets() -> None:
    shell = TransactionalShell()
    shell.commit_in_transaction(1)
    ended = shell.append_marker()
    shell.carry_out(shell.shard.resigned())
    shell.shard.marker_committed(ended, commits=True)
    assert error_of(shell.commit_in_transaction(2)) is ErrorCode.NOT_COORDINATOR


def test_offsets_of_open_transactions_do_not_expire() -> None:
    shell = TransactionalShell(
        offsets_retention_ms=DAY_MS, offsets_retention_check_interval_ms=3_600_000
    )
    shell.commit(5)
    shell.commit_in_transaction(9)
    shell.commit_in_transaction(1, producer_id=8, group="other")
    shell.advance(2 * 86_400)
    assert shell.offset() == 5
    shell.end(commits=False)
    shell.advance(3_700)
    assert shell.offset() == -1
    shell.end(8)
    assert shell.offset(group="other") == 1


@pytest.mark.parametrize("seed", range(40))
def test_random_transactions_against_a_list(seed: int) -> None:
    """Plain and transactional commits, markers and failovers, against the order of the log."""
    dice = Random(seed)
    shell = TransactionalShell()
    history: list[tuple[int, int, int]] = []  # (producer or -1, partition, offset)
    committed: list[int] = []  # indexes into history
    for number in range(1, 151):
        producer_id, partition = dice.randrange(3), dice.randrange(2)
        match dice.randrange(6):
            case 0 | 1:
                shell.commit_in_transaction(number, producer_id, partition)
                history.append((producer_id, partition, number))
            case 2:
                shell.commit_later({(TOPIC, partition): number})
                committed.append(len(history))
                history.append((-1, partition, number))
            case 3 | 4:
                commits = dice.random() < 0.7
                shell.end(producer_id, commits=commits)
                mine = [i for i, one in enumerate(history) if one[0] == producer_id]
                if commits:
                    committed += mine
                history = [(-2, *one[1:]) if i in mine else one for i, one in enumerate(history)]
            case _:
                shell.reload()
        for each in range(2):
            last = max((i for i in committed if history[i][1] == each), default=None)
            assert shell.offset(partition=each) == (-1 if last is None else history[last][2])
            is_open = any(
                one[0] >= 0 and one[1] == each and (last is None or i > last)
                for i, one in enumerate(history)
            )
            assert (shell.stable(each) is ErrorCode.UNSTABLE_OFFSET_COMMIT) is is_open


def test_appends_are_ordered_by_the_log() -> None:
    shell = TransactionalShell(now=Now(5.0, 1_000))
    shell.commit_in_transaction(1)
    shell.end()
    assert shell.offset() == 1
