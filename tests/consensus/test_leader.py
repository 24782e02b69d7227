"""What a leader appends, sends, counts and commits."""

from __future__ import annotations

import pytest

from minikafka import consensus
from minikafka.consensus.messages import AppendRequest, AppendResponse
from tests.consensus import machines


def propose(
    node: consensus.RaftNode, payload: bytes = b"new", now: float = 0.0
) -> list[consensus.Effect]:
    return machines.handle(node, consensus.Propose(payload, node.epoch, "token"), now)


def lengths(effects: list[consensus.Effect], to: int) -> list[tuple[int, int]]:
    """(previous index, number of entries) of each append to a node."""
    requests = machines.of_kind(machines.sent(effects, to), AppendRequest)
    return [(request.previous_index, len(request.entries)) for request in requests]


def test_a_new_leader_takes_proposals_once_its_first_entry_is_committed() -> None:
    node = machines.leader(1)
    assert node.first_index_of_epoch == 2
    assert propose(node) == [consensus.Refused("token")]
    effects = machines.accept(node, 2)
    assert consensus.Committed(2) in effects
    assert node.is_ready
    assert propose(node)[0] == consensus.Accepted("token", 3, 2)


def test_an_entry_is_sent_before_and_counted_after_it_is_stored() -> None:
    node = machines.leader()
    machines.accept(node, 2)
    machines.accept(node, 3)
    effects = propose(node)
    entry = consensus.Entry(1, b"new")
    assert effects == [
        consensus.Accepted("token", 2, 1),
        *(consensus.Send(to, AppendRequest(1, 1, 1, 1, (entry,))) for to in (2, 3)),
        consensus.PersistEntries(2, (entry,)),
    ]
    assert machines.accept(node, 2)[0] == consensus.Committed(2)


def test_in_a_quorum_of_one_storing_is_committing() -> None:
    node = machines.started(voters=frozenset({1}))
    assert propose(node) == [
        consensus.Accepted("token", 2, 1),
        consensus.PersistEntries(2, (consensus.Entry(1, b"new"),)),
        consensus.Committed(2),
    ]


def test_a_decision_of_another_epoch_is_refused() -> None:
    node = machines.started(voters=frozenset({1}))
    assert machines.handle(node, consensus.Propose(b"old", 0, 7)) == [consensus.Refused(7)]
    follower = machines.raft()
    follower.start(0.0)
    assert machines.handle(follower, consensus.Propose(b"x", 0, 7)) == [consensus.Refused(7)]


def test_an_entry_of_an_older_epoch_is_committed_only_with_one_of_the_own() -> None:
    """Counting alone would be wrong: figure 8 of the Raft paper."""
    node = machines.leader(1, 1)
    effects = machines.accept(node, 2, 2)
    assert not machines.of_kind(effects, consensus.Committed)
    assert node.commit_index == 0
    effects = machines.accept(node, 2, 3)
    assert machines.of_kind(effects, consensus.Committed) == [consensus.Committed(3)]


def test_a_majority_commits_and_observers_do_not_count() -> None:
    node = machines.raft(voters=machines.FIVE)
    machines.elect(node, voters=(2, 3))
    node._leader.handle_join(7)
    machines.accept(node, 7)
    machines.accept(node, 2)
    assert node.commit_index == 0
    effects = machines.accept(node, 3)
    assert node.commit_index == 1
    # All learn it at once, not with the next heartbeat.
    for to in (2, 3, 7):
        assert machines.of_kind(machines.sent(effects, to), AppendRequest)[-1].commit_index == 1


def test_entries_are_sent_ahead_up_to_a_limit() -> None:
    node = machines.leader(appends_in_flight_max=2)
    machines.accept(node, 2)
    assert lengths(propose(node), 2) == [(1, 1)]
    assert lengths(propose(node), 2) == [(2, 1)]
    assert lengths(propose(node), 2) == []
    assert lengths(propose(node), 2) == []
    effects = machines.accept(node, 2, 2)
    assert lengths(effects, 2) == [(3, 2)]  # what had to wait goes together
    assert lengths(machines.accept(node, 2, 2), 2) == []


def test_messages_are_small_and_hold_at_least_one_entry() -> None:
    node = machines.leader(1, 1, 1, append_size_bytes_max=1)
    effects = machines.reject(node, 2, 3, 0, 0)
    assert lengths(effects, 2) == [(0, 1)]
    effects = machines.accept(node, 2, 1)
    assert lengths(effects, 2) == [(1, 1), (2, 1), (3, 1)]


def test_a_heartbeat_goes_to_all_nodes_and_repeats_what_may_be_lost() -> None:
    node = machines.raft(1)
    machines.elect(node)  # node 3 has not answered: the probe is repeated
    machines.accept(node, 2, now=0.125)
    deadline = node.deadline()
    assert deadline == 0.375
    assert node.expire(deadline - 0.01) == []
    effects = node.expire(deadline)
    assert lengths(effects, 2) == [(2, 0)]
    assert lengths(effects, 3) == [(1, 1)]
    assert node.deadline() == 0.625


def test_a_probe_is_not_repeated_before_the_heartbeat() -> None:
    node = machines.leader(1)
    effects = machines.accept(
        node, 2
    )  # commits, and sends that to the nodes that can receive a message
    assert lengths(effects, 3) == []


def test_a_lost_append_is_noticed_by_the_next_and_sent_again() -> None:
    node = machines.leader()
    machines.accept(node, 2)
    propose(node)
    propose(node)  # the first of them was lost
    effects = machines.reject(node, 2, 2, 1, 1)
    assert lengths(effects, 2) == [(1, 2)]
    assert lengths(machines.reject(node, 2, 2, 1, 1), 2) == []  # the same answer once more
    effects = machines.accept(node, 2, 3)
    assert consensus.Committed(3) in effects


def test_an_outdated_rejection_is_ignored() -> None:
    node = machines.leader()
    machines.accept(node, 2)
    propose(node)
    machines.accept(node, 2)
    assert machines.reject(node, 2, 1, 0, 0) == []
    assert node.progress()[2].match_index == 2


def test_a_log_that_differs_for_long_is_found_in_few_steps() -> None:
    node = machines.leader(*[1] * 10, *[4] * 50)
    # The follower has 10 entries of epoch 1, and 30 of epochs 2 and 3 that were not committed.
    effects = machines.reject(node, 2, 60, 40, 3)
    assert lengths(effects, 2) == [(10, 51)]


def test_a_step_back_goes_back_at_least_by_one() -> None:
    node = machines.leader(1, 1, 1)
    assert lengths(machines.reject(node, 2, 3, 3, 1), 2) == [(2, 2)]


def test_entries_that_a_node_reports_lost_are_resent(caplog: pytest.LogCaptureFixture) -> None:
    node = machines.leader(1, 1, 1)
    machines.accept(node, 2)
    effects = machines.reject(node, 2, 4, 0, 0)  # its directory is new
    assert node.progress()[2].match_index == 0
    assert lengths(effects, 2) == [(0, 4)]
    assert "its disk lost synced data" in caplog.text


def test_answers_of_strangers_and_of_other_epochs_count_for_nothing() -> None:
    node = machines.leader()
    assert machines.receive(node, 9, AppendResponse(1, True, 0, 1, 0)) == []
    assert machines.receive(node, 2, AppendResponse(0, True, 0, 1, 0)) == []
    assert machines.receive(node, 2, AppendResponse(1, True, 0, 99, 0)) == []
    assert node.commit_index == 0
    follower = machines.raft()
    follower.start(0.0)
    assert machines.receive(follower, 2, AppendResponse(0, True, 0, 0, 0)) == []


def test_a_node_that_died_is_probed_when_it_is_back() -> None:
    node = machines.leader()
    machines.accept(node, 2)
    propose(node)
    machines.handle(node, consensus.PeerLost(2))
    effects = node.expire(1.0)
    assert lengths(effects, 2) == [(1, 1)]
    machines.handle(node, consensus.PeerLost(2))
    machines.handle(node, consensus.PeerLost(9))
    assert node.progress()[2].next_index == 2


def test_a_follower_that_is_caught_up_is_known_to_be() -> None:
    node = machines.raft()
    machines.elect(node, now=5.0)
    progress = node.progress()[2]
    assert not progress.caught_up_at
    machines.accept(node, 2, now=6.0)
    propose(node, now=6.5)
    machines.accept(node, 2, 1, now=7.0)
    assert (progress.heard_at, progress.caught_up_at) == (7.0, 6.0)
    machines.accept(node, 2, now=8.0)
    assert (progress.heard_at, progress.caught_up_at) == (8.0, 8.0)


def test_a_leader_goes_on_where_the_last_one_ended() -> None:
    old = machines.raft(1)
    machines.elect(old)
    new = machines.raft(1, node_id=2)
    new.start(0.0)
    machines.append(new, (1, 1), 2, leader=1, epoch=2)
    machines.elect(new, voters=(3,), now=5.0)
    assert new.epoch == 3
    assert new.log.last_index == 3
