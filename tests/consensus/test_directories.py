"""Voters whose data directory is new: when they vote, count, and are admitted."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from minikafka.consensus import (
    Committed,
    DurableLog,
    Effect,
    PersistEntries,
    PersistState,
    QuorumConfig,
    RaftNode,
    Role,
    Send,
    SupersededLog,
    TransferLeadership,
    durable,
)
from minikafka.consensus.messages import (
    AppendRequest,
    AppendResponse,
    CampaignRequest,
    DirectoryOf,
    JoinRequest,
    SnapshotRequest,
    VoteRequest,
    VoteResponse,
)
from minikafka.storage.checked_file import encode_checked
from minikafka.storage.memory_disk import MemoryDisk
from tests.consensus import machines

NEW = b"a new directory."
FOUNDERS = (DirectoryOf(1, NEW), DirectoryOf(2, b"two"), DirectoryOf(3, b"three"))


def newcomer(*epochs: int, **options: Any) -> RaftNode:
    """A voter with a new directory, which has started."""
    return machines.started(*epochs, directory_id=NEW, is_admitted=False, **options)


# --- what is stored ------------------------------------------------------------------------------


def open_durable(disk: MemoryDisk, config: QuorumConfig, new_id: bytes = NEW) -> DurableLog:
    return DurableLog.open(disk, "d", config, new_directory_id=lambda: new_id)


def new_disk() -> MemoryDisk:
    disk = MemoryDisk(Random(1))
    disk.make_directory("d")
    return disk


def test_a_new_directory_of_a_voter_is_not_admitted_and_keeps_its_id() -> None:
    disk, config = new_disk(), QuorumConfig(1, machines.THREE)
    new = open_durable(disk, config)
    assert (new.directory_id, new.is_admitted) == (NEW, False)
    new.write([PersistState(3, None, False)], 0)
    assert not open_durable(disk, config).is_admitted
    new.write([PersistState(3, 2)], 0)
    again = open_durable(disk, config, b"another")
    assert (again.directory_id, again.is_admitted) == (NEW, True)


def test_a_new_directory_is_admitted_only_of_a_node_that_is_the_whole_quorum() -> None:
    assert open_durable(new_disk(), QuorumConfig(1, frozenset({1}))).is_admitted
    # An observer may have been a voter, with another directory.
    assert not open_durable(new_disk(), QuorumConfig(7, machines.THREE)).is_admitted


def test_a_state_file_without_an_id_gets_one_and_is_admitted() -> None:
    disk = new_disk()
    open_durable(disk, QuorumConfig(1, machines.THREE), b"x")
    content = encode_checked("quorum-state", [4, 2, [1, 2, 3]])
    disk.replace_file(f"d/{durable.STATE_FILE}", content, sync=True)
    old = open_durable(disk, QuorumConfig(1, machines.THREE))
    assert (old.epoch, old.vote, old.directory_id, old.is_admitted) == (4, 2, NEW, True)
    assert open_durable(disk, QuorumConfig(1, machines.THREE), b"x").directory_id == NEW


# --- elections -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_pre_vote", [True, False])
def test_a_new_directory_does_not_vote_where_entries_exist(is_pre_vote: bool) -> None:
    for node in (newcomer(), newcomer(1)):
        assert not machines.ask_for_vote(node, 2, 5, (1, 1), is_pre_vote=is_pre_vote)
        assert not node.is_admitted


def test_a_new_directory_with_entries_does_not_campaign() -> None:
    node = newcomer(1)
    deadline = node.deadline()
    assert deadline is not None
    # It only asks whether it is a voter at all.
    assert set(machines.sent(node.expire(deadline))) == {JoinRequest(node.epoch)}
    assert machines.role(node) is Role.FOLLOWER
    later = node.deadline()
    assert later is not None
    assert later > deadline
    machines.append(node, (1, 1))
    assert not machines.receive(node, 2, CampaignRequest(1))


def test_a_cluster_is_founded_by_all_of_its_voters() -> None:
    node = newcomer()
    effects = node.expire(1.0)
    assert VoteRequest(1, 0, 0, True) in machines.sent(effects, 2)
    machines.receive(node, 2, VoteResponse(0, 1, True, True, b"two", False), 1.0)
    assert machines.role(node) is Role.PROSPECTIVE
    effects = machines.receive(node, 3, VoteResponse(0, 1, True, True, b"three", False), 1.0)
    assert machines.role(node) is Role.CANDIDATE
    assert effects[0] == PersistState(1, 1, True)
    assert machines.sent(effects) == [VoteRequest(1, 0, 0, False, FOUNDERS)] * 2
    machines.receive(node, 2, VoteResponse(1, 1, False, True, b"two"), 1.0)
    assert machines.role(node) is Role.CANDIDATE
    machines.receive(node, 3, VoteResponse(1, 1, False, True, b"three"), 1.0)
    assert machines.role(node) is Role.LEADER


def test_an_admitted_candidate_with_an_empty_log_needs_all_voters_too() -> None:
    node = machines.started(epoch=3)
    node.expire(1.0)
    machines.receive(node, 2, VoteResponse(3, 4, True, True), 1.0)
    assert machines.role(node) is Role.PROSPECTIVE


def test_a_founder_votes_only_with_the_directory_that_was_asked() -> None:
    for directories in ((), FOUNDERS[1:], (DirectoryOf(1, b"lost"), *FOUNDERS[1:])):
        node = newcomer()
        effects = machines.receive(node, 2, VoteRequest(1, 0, 0, False, directories))
        assert machines.sent(effects) == [VoteResponse(1, 1, False, False, NEW, False)]
    node = newcomer()
    effects = machines.receive(node, 2, VoteRequest(1, 0, 0, False, FOUNDERS))
    assert machines.of_kind(effects, PersistState)[-1] == PersistState(1, 2, True)
    assert machines.sent(effects) == [VoteResponse(1, 1, False, True, NEW, True)]


def test_a_founder_says_whom_it_waits_for_but_not_again_and_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    node = newcomer()
    for now in (1.0, 2.0, 3.0, 4.0):
        node.expire(now)
        machines.receive(node, 2, VoteResponse(0, 1, True, True, b"two", False), now)
    assert caplog.text.count("waiting for voters 3: a new cluster is founded by all") == 1


def test_a_candidate_says_that_new_directories_do_not_vote(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    node = machines.started(1)
    node.expire(1.0)
    machines.receive(node, 2, VoteResponse(1, 2, True, False, b"two", False), 1.0)
    node.expire(2.0)
    assert "voters 2 have new data directories" in caplog.text
    assert "waiting for voters 3" in caplog.text


# --- what a leader does with a new directory -----------------------------------------------------


def answer(
    node: RaftNode,
    sender: int,
    directory_id: bytes,
    *,
    is_admitted: bool,
    now: float | None = None,
) -> list[Effect]:
    """A follower has stored everything; by default right before the next heartbeat."""
    response = AppendResponse(
        node.epoch, True, 0, node.log.last_index, 0, directory_id, is_admitted
    )
    deadline = node.deadline()
    assert deadline is not None
    return machines.receive(node, sender, response, deadline if now is None else now)


def beat(node: RaftNode) -> list[Effect]:
    """What a leader does when a heartbeat is due."""
    deadline = node.deadline()
    assert deadline is not None
    return node.expire(deadline)


def admitted_in(effects: Iterable[Effect], to: int) -> set[bytes]:
    requests = machines.of_kind(machines.sent(effects, to), AppendRequest)
    return {request.admitted_directory for request in requests}


def test_what_a_new_directory_stores_does_not_count() -> None:
    node = machines.leader(1)
    effects = answer(node, 2, NEW, is_admitted=False)
    assert not machines.of_kind(effects, Committed)
    effects = answer(node, 3, b"three", is_admitted=True)
    assert machines.of_kind(effects, Committed) == [Committed(2)]


def test_a_new_directory_is_admitted_behind_an_entry_that_a_majority_has_without_it() -> None:
    node = machines.leader(1)
    answer(node, 2, NEW, is_admitted=False)
    answer(node, 3, b"three", is_admitted=True)
    assert node.commit_index == 2
    effects = beat(node)
    (stored,) = machines.of_kind(effects, PersistEntries)
    assert stored.first_index == 3
    assert stored.entries[0].payload == b""
    effects = answer(node, 2, NEW, is_admitted=False)
    assert node.commit_index == 2
    assert admitted_in(effects + beat(node), 2) == {b""}
    effects = answer(node, 3, b"three", is_admitted=True)
    assert node.commit_index == 3
    assert admitted_in(effects, 2) == {NEW}
    assert admitted_in(effects, 3) == {b""}
    assert not machines.of_kind(beat(node), PersistEntries)  # one entry is enough
    answer(node, 2, NEW, is_admitted=True)
    assert admitted_in(beat(node), 2) == {b""}
    assert machines.handle(node, TransferLeadership(2)) == [Send(2, CampaignRequest(node.epoch))]


def test_a_directory_that_is_lost_again_is_admitted_behind_another_entry() -> None:
    node = machines.leader(1)
    answer(node, 2, NEW, is_admitted=False)
    answer(node, 3, b"three", is_admitted=True)
    beat(node)
    answer(node, 3, b"three", is_admitted=True)
    answer(node, 2, NEW, is_admitted=False)
    answer(node, 2, b"newer still", is_admitted=False)
    effects = beat(node)
    (stored,) = machines.of_kind(effects, PersistEntries)
    assert admitted_in(effects, 2) <= {b"", NEW}  # the directory of that name is gone
    answer(node, 2, b"newer still", is_admitted=False)
    effects = answer(node, 3, b"three", is_admitted=True)
    assert node.commit_index == stored.first_index
    assert admitted_in(effects, 2) == {b"newer still"}


def test_a_new_directory_starts_from_nothing() -> None:
    node = machines.leader(1)
    answer(node, 2, b"two", is_admitted=True)
    assert node.progress()[2].match_index == 2
    response = AppendResponse(node.epoch, False, 2, 0, 0, NEW, False)
    machines.receive(node, 2, response)
    assert node.progress()[2].match_index == 0


def test_a_leader_that_hears_only_new_directories_steps_down_and_hands_over_to_none() -> None:
    node = machines.leader(1)
    for now in (0.5, 1.0, 1.5):
        answer(node, 2, NEW, is_admitted=False, now=now)
    assert not machines.handle(node, TransferLeadership(2), 1.5)
    assert not machines.handle(node, TransferLeadership(), 1.5)
    node.expire(1.6)
    assert machines.role(node) is Role.FOLLOWER


def test_a_voter_is_admitted_before_it_answers_and_votes_for_its_leader() -> None:
    node = newcomer(1)
    request = AppendRequest(1, 1, 1, 1, (), b"another directory")
    machines.receive(node, 2, request)
    assert not node.is_admitted
    effects = machines.receive(node, 2, request._replace(admitted_directory=NEW))
    assert machines.of_kind(effects, PersistState) == [PersistState(1, 2, True)]
    assert effects[-1] == Send(2, AppendResponse(1, True, 1, 1, 0, NEW, True, 1))
    again = machines.started(1, vote=node.vote)
    assert not machines.ask_for_vote(again, 3, 1, (1, 1))  # it may have voted for 2 before


# --- committed entries that the leader does not have ---------------------------------------------


@pytest.mark.parametrize(
    "request_",
    [
        AppendRequest(5, 3, 4, 0, ()),
        AppendRequest(5, 2, 1, 0, machines.entries(4, 5)),
        AppendRequest(5, 2, 4, 0, machines.entries(5)),
        SnapshotRequest(5, 3, 4, 100, 0, b""),
    ],
    ids=["probe", "entry", "previous", "snapshot"],
)
def test_a_node_whose_committed_log_was_superseded_takes_no_part(request_: Any) -> None:
    node = machines.started(1, 1, 2, commit_index=3)
    with pytest.raises(SupersededLog, match="was continued without") as caught:
        machines.receive(node, 2, request_)
    assert "log of node 2" in str(caught.value)
    assert "of epoch 4 at index" in str(caught.value)


def test_entries_that_were_not_committed_are_replaced_as_ever() -> None:
    node = machines.started(1, 1, 2, commit_index=2)
    machines.append(node, (2, 1), 5, epoch=5)
    assert machines.epochs_of(node.log) == [1, 1, 5]
