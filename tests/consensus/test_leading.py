"""What a leader appends, sends, counts and commits."""

from __future__ import annotations

import pytest

from minikafka.consensus import (
    Accepted,
    Committed,
    Effect,
    Entry,
    PeerLost,
    PersistEntries,
    Propose,
    RaftNode,
    Refused,
    Send,
)
from minikafka.consensus.messages import AppendRequest, AppendResponse
from tests.consensus.machines import (
    FIVE,
    accept,
    append,
    elect,
    handle,
    of_kind,
    raft,
    receive,
    reject,
    sent,
)


def propose(node: RaftNode, payload: bytes = b"new", now: float = 0.0) -> list[Effect]:
    return handle(node, Propose(payload, node.epoch, "token"), now)


def lengths(effects: list[Effect], to: int) -> list[tuple[int, int]]:
    """(previous index, number of entries) of each append to a node."""
    requests = of_kind(sent(effects, to), AppendRequest)
    return [(request.previous_index, len(request.entries)) for request in requests]


def test_a_new_leader_takes_proposals_once_its_first_entry_is_committed() -> None:
    node = raft(1)
    elect(node)
    assert node.first_index_of_epoch == 2
    assert propose(node) == [Refused("token")]
    effects = accept(node, 2)
    assert Committed(2) in effects
    assert node.is_ready
    assert propose(node)[0] == Accepted("token", 3, 2)


def test_an_entry_is_sent_before_and_counted_after_it_is_stored() -> None:
    node = raft()
    elect(node)
    accept(node, 2)
    accept(node, 3)
    effects = propose(node)
    entry = Entry(1, b"new")
    assert effects == [
        Accepted("token", 2, 1),
        *(Send(to, AppendRequest(1, 1, 1, 1, (entry,))) for to in (2, 3)),
        PersistEntries(2, (entry,)),
    ]
    assert accept(node, 2)[0] == Committed(2)


def test_in_a_quorum_of_one_storing_is_committing() -> None:
    node = raft(voters=frozenset({1}))
    node.start(0.0)
    assert propose(node) == [
        Accepted("token", 2, 1),
        PersistEntries(2, (Entry(1, b"new"),)),
        Committed(2),
    ]


def test_what_was_decided_in_another_epoch_is_refused() -> None:
    node = raft(voters=frozenset({1}))
    node.start(0.0)
    assert handle(node, Propose(b"old", 0, 7)) == [Refused(7)]
    follower = raft()
    follower.start(0.0)
    assert handle(follower, Propose(b"x", 0, 7)) == [Refused(7)]


def test_an_entry_of_an_older_epoch_is_committed_only_with_one_of_the_own() -> None:
    """Counting alone would be wrong: figure 8 of the Raft paper."""
    node = raft(1, 1)
    elect(node)
    effects = accept(node, 2, 2)
    assert not of_kind(effects, Committed)
    assert node.commit_index == 0
    effects = accept(node, 2, 3)
    assert of_kind(effects, Committed) == [Committed(3)]


def test_a_majority_commits_and_observers_do_not_count() -> None:
    node = raft(voters=FIVE)
    elect(node, voters=(2, 3))
    node._leading.handle_join(7)
    accept(node, 7)
    accept(node, 2)
    assert node.commit_index == 0
    effects = accept(node, 3)
    assert node.commit_index == 1
    # All learn it at once, not with the next heartbeat.
    for to in (2, 3, 7):
        assert of_kind(sent(effects, to), AppendRequest)[-1].commit_index == 1


def test_entries_are_sent_ahead_up_to_a_limit() -> None:
    node = raft(appends_in_flight_max=2)
    elect(node)
    accept(node, 2)
    assert lengths(propose(node), 2) == [(1, 1)]
    assert lengths(propose(node), 2) == [(2, 1)]
    assert lengths(propose(node), 2) == []
    assert lengths(propose(node), 2) == []
    effects = accept(node, 2, 2)
    assert lengths(effects, 2) == [(3, 2)]  # what had to wait goes together
    assert lengths(accept(node, 2, 2), 2) == []


def test_messages_are_small_and_hold_at_least_one_entry() -> None:
    node = raft(1, 1, 1, append_size_bytes_max=1)
    elect(node)
    effects = reject(node, 2, 3, 0, 0)
    assert lengths(effects, 2) == [(0, 1)]
    effects = accept(node, 2, 1)
    assert lengths(effects, 2) == [(1, 1), (2, 1), (3, 1)]


def test_a_heartbeat_goes_to_everybody_and_repeats_what_may_be_lost() -> None:
    node = raft(1)
    elect(node)  # node 3 has not answered: the probe is repeated
    accept(node, 2, now=0.125)
    deadline = node.deadline()
    assert deadline == 0.375
    assert node.expire(deadline - 0.01) == []
    effects = node.expire(deadline)
    assert lengths(effects, 2) == [(2, 0)]
    assert lengths(effects, 3) == [(1, 1)]
    assert node.deadline() == 0.625


def test_a_probe_is_not_repeated_before_the_heartbeat() -> None:
    node = raft(1)
    elect(node)
    effects = accept(node, 2)  # commits, which is told to those whom a message may reach
    assert lengths(effects, 3) == []


def test_a_lost_append_is_noticed_by_the_next_and_sent_again() -> None:
    node = raft()
    elect(node)
    accept(node, 2)
    propose(node)
    propose(node)  # the first of them was lost
    effects = reject(node, 2, 2, 1, 1)
    assert lengths(effects, 2) == [(1, 2)]
    assert lengths(reject(node, 2, 2, 1, 1), 2) == []  # the same answer once more
    effects = accept(node, 2, 3)
    assert Committed(3) in effects


def test_an_old_rejection_is_no_news() -> None:
    node = raft()
    elect(node)
    accept(node, 2)
    propose(node)
    accept(node, 2)
    assert reject(node, 2, 1, 0, 0) == []
    assert node.progress()[2].match_index == 2


def test_a_log_that_differs_for_long_is_found_in_few_steps() -> None:
    node = raft(*[1] * 10, *[4] * 50)
    elect(node)
    # The follower has 10 entries of epoch 1, and 30 of epochs 2 and 3 that nobody committed.
    effects = reject(node, 2, 60, 40, 3)
    assert lengths(effects, 2) == [(10, 51)]


def test_a_step_back_goes_back_at_least_by_one() -> None:
    node = raft(1, 1, 1)
    elect(node)
    assert lengths(reject(node, 2, 3, 3, 1), 2) == [(2, 2)]


def test_what_a_node_admits_to_have_lost_is_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    node = raft(1, 1, 1)
    elect(node)
    accept(node, 2)
    effects = reject(node, 2, 4, 0, 0)  # its directory is new
    assert node.progress()[2].match_index == 0
    assert lengths(effects, 2) == [(0, 4)]
    assert "its disk lost what it had synced" in caplog.text


def test_answers_of_strangers_and_of_other_epochs_count_for_nothing() -> None:
    node = raft()
    elect(node)
    assert receive(node, 9, AppendResponse(1, True, 0, 1, 0)) == []
    assert receive(node, 2, AppendResponse(0, True, 0, 1, 0)) == []
    assert receive(node, 2, AppendResponse(1, True, 0, 99, 0)) == []
    assert node.commit_index == 0
    follower = raft()
    follower.start(0.0)
    assert receive(follower, 2, AppendResponse(0, True, 0, 0, 0)) == []


def test_a_node_that_died_is_probed_when_it_is_back() -> None:
    node = raft()
    elect(node)
    accept(node, 2)
    propose(node)
    handle(node, PeerLost(2))
    effects = node.expire(1.0)
    assert lengths(effects, 2) == [(1, 1)]
    handle(node, PeerLost(2))
    handle(node, PeerLost(9))
    assert node.progress()[2].next_index == 2


def test_a_follower_that_is_caught_up_is_known_to_be() -> None:
    node = raft()
    elect(node, now=5.0)
    progress = node.progress()[2]
    assert not progress.caught_up_at
    accept(node, 2, now=6.0)
    propose(node, now=6.5)
    accept(node, 2, 1, now=7.0)
    assert (progress.heard_at, progress.caught_up_at) == (7.0, 6.0)
    accept(node, 2, now=8.0)
    assert (progress.heard_at, progress.caught_up_at) == (8.0, 8.0)


def test_a_leader_goes_on_where_the_last_one_ended() -> None:
    old = raft(1)
    elect(old)
    new = raft(1, node_id=2)
    new.start(0.0)
    append(new, (1, 1), 2, leader=1, epoch=2)
    elect(new, voters=(3,), now=5.0)
    assert new.epoch == 3
    assert new.log.last_index == 3
