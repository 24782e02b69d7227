"""What a follower stores, refuses and commits."""

from __future__ import annotations

from minikafka.consensus import Committed, PersistEntries, PersistState, Role
from minikafka.consensus.messages import AppendRequest, AppendResponse
from tests.consensus.machines import (
    append,
    entries,
    epochs_of,
    of_kind,
    raft,
    receive,
    role,
    sent,
    started,
)


def test_entries_are_stored_before_they_are_acknowledged() -> None:
    node = started(1)
    effects = append(node, (1, 1), 2, 2, epoch=2, commit_index=2)
    assert effects[0] == PersistState(2, None)
    assert effects[-3:] == [PersistEntries(2, entries(2, 2)), Committed(2), effects[-1]]
    assert sent(effects) == [AppendResponse(2, True, 1, 3, 0, kraft_version_max=1)]
    assert node.leader_id == 2


def test_a_heartbeat_is_acknowledged_and_carries_the_commit_index() -> None:
    node = started(1, 1)
    effects = append(node, (2, 1), commit_index=9)
    assert sent(effects) == [AppendResponse(1, True, 2, 2, 0, kraft_version_max=1)]
    assert of_kind(effects, Committed) == [Committed(2)]
    assert node.commit_index == 2


def test_only_compared_entries_are_committed() -> None:
    """What follows may come from a deposed leader."""
    node = started(1, 1, 1)
    append(node, (1, 1), epoch=2, commit_index=3)
    assert node.commit_index == 1


def test_a_gap_is_refused_with_where_the_logs_may_agree() -> None:
    node = started(1, 1)
    effects = append(node, (5, 3), 3, epoch=3)
    assert sent(effects) == [AppendResponse(3, False, 5, 2, 1, kraft_version_max=1)]
    assert not of_kind(effects, PersistEntries)


def test_another_entry_before_is_refused_with_the_last_of_an_earlier_epoch() -> None:
    node = started(1, 1, 2, 2, 2)
    effects = append(node, (4, 1), 3, epoch=3)
    assert sent(effects) == [AppendResponse(3, False, 4, 2, 1, kraft_version_max=1)]
    assert epochs_of(node.log) == [1, 1, 2, 2, 2]


def test_entries_that_differ_replace_the_old_ones() -> None:
    node = started(1, 1, 2, 2)
    effects = append(node, (1, 1), 1, 3, epoch=3)
    assert of_kind(effects, PersistEntries) == [PersistEntries(3, entries(3))]
    assert epochs_of(node.log) == [1, 1, 3]


def test_an_append_that_was_overtaken_takes_nothing_away() -> None:
    node = started(1)
    append(node, (1, 1), 1, 1, 1)
    effects = append(node, (1, 1), 1)
    assert not of_kind(effects, PersistEntries)
    assert node.log.last_index == 4
    assert sent(effects) == [AppendResponse(1, True, 1, 2, 0, kraft_version_max=1)]


def test_committed_entries_are_not_compared_again() -> None:
    node = started(1, 1, 1, commit_index=3)
    effects = append(node, (1, 1), 1)  # wholly old
    assert sent(effects) == [AppendResponse(1, True, 3, 3, 0, kraft_version_max=1)]
    effects = append(node, (1, 1), 1, 1, 1)  # its end is new
    assert of_kind(effects, PersistEntries) == [PersistEntries(4, entries(1))]
    assert sent(effects) == [AppendResponse(1, True, 3, 4, 0, kraft_version_max=1)]


def test_a_prospective_and_a_candidate_follow_a_leader_of_their_epoch() -> None:
    node = started()
    node.expire(1.0)
    append(node, (0, 0), epoch=0, now=1.0)
    assert role(node) is Role.FOLLOWER
    candidate = raft()
    candidate.start(0.0)
    candidate.expire(1.0)
    candidate._election.campaign()
    candidate._context.take_effects()
    append(candidate, (0, 0), 1, epoch=1, now=1.0)
    assert candidate.role is Role.FOLLOWER
    assert candidate.leader_id == 2
    assert candidate.vote == 1


def test_each_message_restarts_a_followers_timer() -> None:
    node = started()
    receive(node, 2, AppendRequest(1, 0, 0, 0, ()), 10.0)
    assert node.deadline() == 11.0
    receive(node, 2, AppendRequest(1, 0, 0, 0, ()), 10.5)
    assert node.deadline() == 11.5
