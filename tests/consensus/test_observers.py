"""Nodes that do not vote: they ask for entries, get them, and count for nothing."""

from __future__ import annotations

import pytest

from minikafka.consensus import PeerLost, Role, RoleChanged
from minikafka.consensus.messages import AppendRequest, AppendResponse, JoinRequest
from tests.consensus import machines


def test_an_observer_asks_all_voters_until_a_leader_sends_something() -> None:
    node = machines.raft(node_id=7)
    effects = node.start(0.0)
    assert machines.sent(effects) == [JoinRequest(0)] * 3
    deadline = node.deadline()
    assert deadline == 0.25
    assert machines.sent(node.expire(deadline)) == [JoinRequest(0)] * 3
    effects = machines.append(node, (0, 0), 1, epoch=1, now=1.0)
    assert machines.sent(effects) == [AppendResponse(1, True, 0, 1, 0, kraft_version_max=1)]
    assert (node.role, node.leader_id) == (Role.OBSERVER, 2)
    assert node.deadline() == 2.0
    effects = node.expire(2.0)
    assert effects[0] == RoleChanged(Role.OBSERVER, 1, None)
    assert machines.sent(effects) == [JoinRequest(1)] * 3
    assert machines.role(node) is Role.OBSERVER


def test_an_observer_whose_leader_died_asks_immediately() -> None:
    node = machines.started(node_id=7)
    machines.append(node, (0, 0), epoch=1, now=1.0)
    machines.handle(node, PeerLost(2), 1.0)
    assert node.leader_id is None
    deadline = node.deadline()
    assert deadline == 1.0
    assert machines.sent(node.expire(deadline)) == [JoinRequest(1)] * 3


def test_a_leader_sends_an_observer_what_it_lacks() -> None:
    leader = machines.raft(1, 1)
    machines.elect(leader)
    machines.accept(leader, 2)
    effects = machines.receive(leader, 7, JoinRequest(0))
    (request,) = machines.of_kind(machines.sent(effects, 7), AppendRequest)
    assert request.previous_index == 3
    observer = machines.raft(node_id=7)
    observer.start(0.0)
    for _ in range(2):
        answers = machines.sent(machines.receive(observer, 1, request), 1)
        effects = machines.receive(leader, 7, answers[-1])
        requests = machines.of_kind(machines.sent(effects, 7), AppendRequest)
        if requests:
            request = requests[-1]
    assert machines.epochs_of(observer.log) == [1, 1, 2]
    assert observer.commit_index == 3
    assert leader.progress()[7].is_observer


def test_an_observer_that_asks_again_is_resent_what_may_be_lost() -> None:
    leader = machines.raft(1)
    machines.elect(leader)
    machines.receive(leader, 7, JoinRequest(0))
    machines.accept(leader, 7, 1)
    effects = machines.receive(leader, 7, JoinRequest(0))
    (request,) = machines.of_kind(machines.sent(effects, 7), AppendRequest)
    assert (request.previous_index, len(request.entries)) == (1, 1)
    assert len(leader.progress()) == 3


def test_only_a_leader_takes_observers_and_voters_are_none() -> None:
    node = machines.started()
    assert not machines.receive(node, 7, JoinRequest(0))
    machines.elect(node)
    assert not machines.receive(node, 2, JoinRequest(0))


def test_observers_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    leader = machines.raft()
    machines.elect(leader)
    for observer in (7, 8):
        assert machines.receive(leader, observer, JoinRequest(0))
    assert not machines.receive(leader, 9, JoinRequest(0))
    assert "node 9 cannot observe" in caplog.text
    machines.handle(leader, PeerLost(7))
    assert machines.receive(leader, 9, JoinRequest(0))


def test_a_silent_observer_is_forgotten() -> None:
    leader = machines.raft()
    machines.elect(leader)
    machines.receive(leader, 7, JoinRequest(0), 0.0)
    machines.receive(leader, 8, JoinRequest(0), 0.0)
    now = 0.0
    while now < 11.0:
        now += 0.25
        for node_id in (2, 3, 8):
            machines.accept(leader, node_id, now=now)
        leader.expire(now)
    assert sorted(leader.progress()) == [2, 3, 8]


def test_a_leader_that_stood_still_forgets_no_observer_for_that() -> None:
    leader = machines.raft(voters=frozenset({1}))
    leader.start(0.0)
    machines.receive(leader, 7, JoinRequest(0), 1.0)
    machines.receive(leader, 8, JoinRequest(0), 1.0)
    leader.expire(12.0)
    assert sorted(leader.progress()) == [7, 8]
    now = 12.0
    while now < 23.0:
        now += 0.25
        machines.accept(leader, 8, now=now)
        leader.expire(now)
    assert sorted(leader.progress()) == [8]


def test_a_lone_leader_starts_heartbeats_with_its_first_observer() -> None:
    leader = machines.raft(voters=frozenset({1}))
    leader.start(0.0)
    assert leader.deadline() is None
    effects = machines.receive(leader, 7, JoinRequest(0), 5.0)
    assert machines.of_kind(machines.sent(effects, 7), AppendRequest)
    assert leader.deadline() == 5.25
    machines.receive(leader, 8, JoinRequest(0), 5.1)
    assert leader.deadline() == 5.25
    leader.expire(5.25)
    machines.handle(leader, PeerLost(7), 5.3)
    machines.handle(leader, PeerLost(8), 5.3)
    assert leader.deadline() is None


def test_an_observer_that_knows_a_higher_epoch_ends_a_reign() -> None:
    leader = machines.raft()
    machines.elect(leader)
    machines.receive(leader, 7, JoinRequest(0))
    machines.receive(leader, 7, AppendResponse(9, False, 0, 0, 0))
    assert machines.role(leader) is Role.FOLLOWER
    assert leader.epoch == 9


def test_an_observer_never_campaigns() -> None:
    node = machines.started(node_id=7)
    for _ in range(5):
        deadline = node.deadline()
        assert deadline is not None
        assert all(isinstance(one, JoinRequest) for one in machines.sent(node.expire(deadline)))
