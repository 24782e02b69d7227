"""Who is elected, and who is not."""

from __future__ import annotations

import pytest

from minikafka.consensus import (
    PeerLost,
    PersistState,
    QuorumConfig,
    RaftNode,
    Role,
    RoleChanged,
    Send,
    TransferLeadership,
    messages,
)
from minikafka.consensus.raft import EPOCH_STEP_MAX
from tests.consensus import machines


def test_a_quorum_of_one_leads_immediately_and_needs_no_timer() -> None:
    node = machines.raft(voters=frozenset({1}))
    effects = node.start(0.0)
    assert machines.role(node) is Role.LEADER
    assert node.is_ready
    assert node.deadline() is None
    assert effects[0] == PersistState(1, 1)
    assert not machines.sent(effects)
    assert not node.expire(1000.0)
    assert machines.role(node) is Role.LEADER


def test_a_voter_waits_then_asks_then_campaigns_then_leads() -> None:
    node = machines.raft(1, 1)
    assert not machines.sent(node.start(10.0))
    assert not node.expire(10.0)  # too early
    deadline = node.deadline()
    assert deadline == 10.125
    effects = node.expire(deadline)
    assert machines.role(node) is Role.PROSPECTIVE
    assert effects[1:] == [Send(to, messages.VoteRequest(2, 1, 2, True)) for to in (2, 3)]
    assert node.epoch == 1  # a pre-vote promises nothing
    effects = machines.receive(node, 2, messages.VoteResponse(1, 2, True, True), deadline)
    assert machines.role(node) is Role.CANDIDATE
    assert effects[0] == PersistState(2, 1)  # before anybody is asked
    assert machines.sent(effects) == [messages.VoteRequest(2, 1, 2, False)] * 2
    effects = machines.receive(node, 3, messages.VoteResponse(2, 2, False, True), deadline)
    assert machines.role(node) is Role.LEADER
    assert node.leader_id == 1
    assert machines.of_kind(effects, RoleChanged) == [RoleChanged(Role.LEADER, 2, 1)]
    assert (
        machines.of_kind(machines.sent(effects, 2), messages.AppendRequest)[0].entries[0].payload
        == b""
    )


def test_two_of_five_are_no_majority() -> None:
    node = machines.started(1, voters=machines.FIVE)
    node.expire(1.0)
    machines.receive(node, 2, messages.VoteResponse(1, 2, True, True), 1.0)
    assert machines.role(node) is Role.PROSPECTIVE
    machines.receive(node, 2, messages.VoteResponse(1, 2, True, True), 1.0)  # the same one again
    assert machines.role(node) is Role.PROSPECTIVE
    machines.receive(node, 3, messages.VoteResponse(1, 2, True, True), 1.0)
    assert machines.role(node) is Role.CANDIDATE


def test_answers_that_come_too_late_count_for_nothing() -> None:
    node = machines.started()
    machines.receive(node, 2, messages.VoteResponse(0, 1, True, True), 0.0)
    assert machines.role(node) is Role.FOLLOWER
    node.expire(1.0)
    machines.receive(node, 2, messages.VoteResponse(0, 1, False, True), 1.0)  # of an older campaign
    machines.receive(node, 9, messages.VoteResponse(0, 1, True, True), 1.0)  # not a voter
    assert machines.role(node) is Role.PROSPECTIVE
    machines.receive(node, 2, messages.VoteResponse(0, 1, True, True), 1.0)
    machines.receive(node, 3, messages.VoteResponse(0, 1, True, True), 1.0)  # a pre-vote is no vote
    assert machines.role(node) is Role.CANDIDATE


def test_a_candidate_that_has_lost_retries_soon() -> None:
    node = machines.started(1)
    node.expire(1.0)
    machines.receive(node, 2, messages.VoteResponse(1, 2, True, False), 1.0)
    assert machines.role(node) is Role.PROSPECTIVE  # the third may say yes
    machines.receive(node, 3, messages.VoteResponse(1, 2, True, False), 1.0)
    assert machines.role(node) is Role.FOLLOWER
    assert node.deadline() == 1.125
    node.expire(1.125)
    assert machines.role(node) is Role.PROSPECTIVE
    machines.handle(node, PeerLost(2), 1.2)
    assert machines.role(node) is Role.PROSPECTIVE
    machines.handle(node, PeerLost(3), 1.2)
    assert machines.role(node) is Role.FOLLOWER


def test_an_election_without_answers_restarts_with_a_pre_vote() -> None:
    node = machines.started(1)
    node.expire(1.0)
    machines.receive(node, 2, messages.VoteResponse(1, 2, True, True), 1.0)
    assert machines.role(node) is Role.CANDIDATE
    node.expire(2.0)
    assert machines.role(node) is Role.PROSPECTIVE
    assert node.epoch == 2
    node.expire(3.0)
    assert machines.role(node) is Role.PROSPECTIVE
    assert node.epoch == 2


@pytest.mark.parametrize("is_pre_vote", [True, False])
def test_a_vote_needs_a_log_that_is_not_behind(is_pre_vote: bool) -> None:
    for last, is_granted in [((2, 9), False), ((3, 2), False), ((3, 3), True), ((4, 1), True)]:
        node = machines.started(1, 2, 3)
        assert machines.ask_for_vote(node, 2, 5, last, is_pre_vote=is_pre_vote) is is_granted


def test_a_vote_is_given_once_in_an_epoch_and_is_on_disk_first() -> None:
    node = machines.started(1)
    effects = machines.receive(node, 2, messages.VoteRequest(2, 1, 1, False))
    assert machines.of_kind(effects, PersistState) == [PersistState(2, None), PersistState(2, 2)]
    assert effects[-1] == Send(2, messages.VoteResponse(2, 2, False, True))
    assert not machines.ask_for_vote(node, 3, 2, (1, 1))
    assert machines.ask_for_vote(node, 2, 2, (1, 1))  # the answer was lost
    assert machines.ask_for_vote(node, 3, 3, (1, 1))
    again = machines.raft(1, epoch=3, vote=node.vote)
    again.start(0.0)
    assert not machines.ask_for_vote(again, 2, 3, (1, 1))
    assert not machines.ask_for_vote(again, 3, 2, (1, 1))  # an epoch that is over


def test_a_node_with_a_leader_does_not_vote_in_its_epoch() -> None:
    node = machines.started(1)
    machines.append(node, (1, 1), 2, epoch=2)
    assert not machines.ask_for_vote(node, 3, 2, (2, 2))
    assert not machines.ask_for_vote(node, 3, 3, (2, 2), is_pre_vote=True)
    assert machines.ask_for_vote(node, 3, 3, (2, 2))


def test_a_pre_vote_changes_nothing() -> None:
    node = machines.started(1)
    effects = machines.receive(node, 2, messages.VoteRequest(7, 1, 1, True))
    assert not machines.of_kind(effects, PersistState)
    assert (node.epoch, node.vote, node.role) == (1, None, Role.FOLLOWER)
    assert machines.ask_for_vote(node, 3, 7, (1, 1), is_pre_vote=True)
    assert not machines.ask_for_vote(node, 3, 1, (1, 1), is_pre_vote=True)  # we are there already


def test_a_follower_that_hears_its_leader_gives_no_pre_vote_until_it_is_silent() -> None:
    node = machines.started(1, epoch=1)
    machines.append(node, (1, 1), now=10.0)
    assert not machines.ask_for_vote(node, 3, 2, (1, 1), is_pre_vote=True, now=10.9)
    assert machines.ask_for_vote(node, 3, 2, (1, 1), is_pre_vote=True, now=11.0)


def test_a_leader_gives_no_pre_vote() -> None:
    node = machines.leader()
    assert not machines.ask_for_vote(node, 3, 9, (9, 9), is_pre_vote=True)


def test_a_voter_that_gave_a_pre_vote_stands_back_once() -> None:
    node = machines.started(1)
    machines.ask_for_vote(node, 2, 2, (1, 1), is_pre_vote=True, now=0.1)
    assert node.deadline() == 0.6
    machines.ask_for_vote(node, 2, 2, (1, 1), is_pre_vote=True, now=0.5)
    assert node.deadline() == 0.6  # perhaps the other never hears the answers


def test_a_prospective_that_votes_for_another_stops_asking() -> None:
    node = machines.started(1)
    node.expire(1.0)
    assert machines.ask_for_vote(node, 2, 1, (1, 1), now=1.0)
    assert machines.role(node) is Role.FOLLOWER
    machines.receive(node, 3, messages.VoteResponse(1, 2, True, True), 1.0)
    assert node.epoch == 1


@pytest.mark.parametrize("is_pre_vote", [True, False])
def test_strangers_are_not_voted_for(is_pre_vote: bool) -> None:
    node = machines.started()
    assert not machines.receive(node, 9, messages.VoteRequest(1, 1, 1, is_pre_vote))
    assert node.epoch == 0


@pytest.mark.parametrize("is_pre_vote", [True, False])
def test_observers_do_not_vote(is_pre_vote: bool) -> None:
    node = machines.started(node_id=7)
    assert not machines.sent(machines.receive(node, 2, messages.VoteRequest(1, 1, 1, is_pre_vote)))


def test_a_message_from_oneself_is_ignored() -> None:
    node = machines.started()
    assert not machines.receive(node, 1, messages.VoteRequest(9, 9, 9, False))
    assert node.epoch == 0


def test_a_higher_epoch_ends_a_reign_and_a_candidacy() -> None:
    for message in (
        messages.VoteResponse(9, 9, True, False),
        messages.VoteRequest(9, 0, 0, False),
        messages.AppendResponse(9, False, 0, 0, 0),
        messages.AppendRequest(9, 0, 0, 0, ()),
    ):
        leader = machines.raft()
        machines.elect(leader)
        candidate = machines.raft()
        candidate.start(0.0)
        candidate.expire(1.0)
        machines.receive(candidate, 3, messages.VoteResponse(0, 1, True, True), 1.0)
        for node in (leader, candidate):
            effects = machines.receive(node, 2, message, 2.0)
            assert effects[0] == PersistState(9, None)
            assert node.epoch == 9
            assert machines.role(node) is Role.FOLLOWER
            assert node.leader_id == (2 if isinstance(message, messages.AppendRequest) else None)


def test_a_leader_of_an_older_epoch_learns_that_its_time_is_over() -> None:
    node = machines.started(epoch=5)
    effects = machines.append(node, (0, 0), 4, epoch=4)
    assert machines.sent(effects) == [messages.AppendResponse(5, False, 0, 0, 0)]
    assert node.log.last_index == 0


def test_a_leader_that_is_not_a_voter_is_ignored() -> None:
    node = machines.started()
    assert not machines.append(node, (0, 0), 1, leader=9, epoch=9)
    assert node.epoch == 0


def test_two_leaders_in_one_epoch_are_a_misconfiguration_that_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    follower = machines.raft()
    follower.start(0.0)
    machines.append(follower, (0, 0), epoch=1, leader=2)
    assert not machines.append(follower, (0, 0), epoch=1, leader=3)
    leader = machines.raft()
    machines.elect(leader)
    assert not machines.append(leader, (0, 0), leader=3)
    assert caplog.text.count("two processes use one node id") == 2


# --- what makes elections quick ------------------------------------------------------------------


def test_a_follower_whose_leader_died_asks_immediately() -> None:
    node = machines.started(1, dice=lambda low, high: high)
    machines.append(node, (1, 1), now=10.0)
    assert node.deadline() == 12.0
    effects = machines.handle(node, PeerLost(3), 10.0)  # not the leader
    assert not effects
    assert node.deadline() == 12.0
    effects = machines.handle(node, PeerLost(2), 10.0)
    assert effects == [RoleChanged(Role.FOLLOWER, 1, None)]
    assert node.deadline() == 10.05
    machines.handle(node, PeerLost(2), 10.01)
    assert node.deadline() == 10.05
    node.expire(10.05)
    assert machines.role(node) is Role.PROSPECTIVE


def test_a_loss_before_the_start_is_no_reason_to_hurry() -> None:
    node = machines.raft()
    machines.handle(node, PeerLost(2), 1.0)
    assert node.deadline() == 1.0


def test_last_words_of_a_dead_leader_do_not_revive_it_but_its_entries_count() -> None:
    node = machines.started(1)
    machines.append(node, (1, 1), now=10.0)
    machines.handle(node, PeerLost(2), 10.0)
    machines.append(node, (1, 1), 1, now=10.1)
    assert node.log.last_index == 2
    assert node.leader_id is None
    assert machines.ask_for_vote(node, 3, 2, (1, 2), is_pre_vote=True, now=10.1)
    machines.append(node, (2, 1), now=10.3)  # so it lives after all
    assert node.leader_id == 2


# --- handing over --------------------------------------------------------------------------------


def takes_proposals(node: RaftNode) -> bool:
    return node.is_ready


def test_a_leader_hands_over_to_the_voter_with_the_longest_log() -> None:
    node = machines.raft(1, 1, voters=machines.FIVE)
    machines.elect(node, voters=(2, 3))
    machines.accept(node, 2, 2)
    machines.accept(node, 4)
    machines.accept(node, 5)
    machines.accept(node, 3, 2)
    assert takes_proposals(node)
    machines.handle(node, PeerLost(4))
    effects = machines.handle(node, TransferLeadership())
    assert machines.sent(effects, 5) == [messages.CampaignRequest(node.epoch)]
    assert not takes_proposals(node)
    node.expire(0.6)
    assert not takes_proposals(node)
    for sender in (2, 3, 5):
        machines.accept(node, sender, now=1.0)
    node.expire(1.2)  # no node took over: go on
    assert takes_proposals(node)


def test_a_successor_is_brought_up_to_date_before_it_takes_over() -> None:
    node = machines.leader(1, 1)
    effects = machines.handle(node, TransferLeadership(3))
    assert not machines.of_kind(machines.sent(effects), messages.CampaignRequest)
    effects = machines.accept(node, 3)
    assert machines.of_kind(machines.sent(effects, 3), messages.CampaignRequest)
    assert not machines.of_kind(machines.sent(machines.accept(node, 2)), messages.CampaignRequest)


def test_only_a_leader_hands_over_and_only_to_a_voter_that_is_there() -> None:
    node = machines.started()
    assert not machines.handle(node, TransferLeadership())
    machines.elect(node)
    for target in (1, 9):
        assert not machines.handle(node, TransferLeadership(target))
    machines.accept(node, 2)
    assert node.is_ready
    for lost in (2, 3):
        machines.handle(node, PeerLost(lost))
    assert not machines.handle(node, TransferLeadership())
    assert node.is_ready


def test_a_voter_that_is_asked_to_take_over_campaigns_without_a_pre_vote() -> None:
    node = machines.started(1)
    machines.append(node, (1, 1))
    for sender, epoch in ((3, 1), (2, 0)):
        assert not machines.receive(node, sender, messages.CampaignRequest(epoch))
    effects = machines.receive(node, 2, messages.CampaignRequest(1))
    assert machines.role(node) is Role.CANDIDATE
    assert machines.sent(effects) == [messages.VoteRequest(2, 1, 1, False)] * 2


def test_a_leader_whose_disk_fails_asks_a_successor_and_does_nothing_else() -> None:
    node = machines.leader(1)
    machines.accept(node, 3)
    assert node.resign(0.0) == [Send(3, messages.CampaignRequest(node.epoch))]
    follower = machines.raft(1)
    follower.start(0.0)
    assert not follower.resign(0.0)


# --- check quorum --------------------------------------------------------------------------------


def test_a_leader_that_hears_no_majority_steps_down() -> None:
    node = machines.raft(voters=machines.FIVE)
    machines.elect(node, now=0.0, voters=(2, 3))
    begin = node.deadline()
    assert begin is not None
    machines.accept(node, 2, now=begin + 0.5)
    machines.accept(node, 3, now=begin + 0.5)
    node.expire(begin + 1.4)
    assert machines.role(node) is Role.LEADER
    effects = node.expire(begin + 1.7)
    assert machines.role(node) is Role.FOLLOWER
    assert machines.of_kind(effects, RoleChanged) == [RoleChanged(Role.FOLLOWER, 1, None)]
    assert not node.progress()
    assert not node.is_ready


def test_a_role_that_cannot_follow_is_a_bug() -> None:
    node = machines.leader()
    with pytest.raises(RuntimeError, match="a Leader cannot become a Candidate"):
        node._election.campaign()


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one voter"):
        QuorumConfig(1, frozenset())
    with pytest.raises(ValueError, match="heartbeat_s"):
        QuorumConfig(1, frozenset({1}), heartbeat_s=2.0)


# --- epochs that elections cannot explain --------------------------------------------------------


def test_a_message_moves_the_epoch_by_one_step_at_most(caplog: pytest.LogCaptureFixture) -> None:
    node = machines.started(1)
    for epoch in (1 + EPOCH_STEP_MAX, 1 + 2 * EPOCH_STEP_MAX):
        effects = machines.receive(node, 2, messages.VoteRequest(messages.EPOCH_MAX, 1, 1, False))
        assert effects[0] == PersistState(epoch, None)
        assert not machines.sent(effects)
        assert node.epoch == epoch
    assert caplog.text.count("elections cannot explain that") == 1


def test_a_node_that_was_away_from_all_that_follows_its_leader() -> None:
    node = machines.started(1)
    epoch = 1 + 2 * EPOCH_STEP_MAX + 5
    for _ in range(3):
        effects = machines.append(node, (1, 1), epoch=epoch)
    assert (node.epoch, node.leader_id) == (epoch, 2)
    assert machines.of_kind(machines.sent(effects), messages.AppendResponse)[0].is_accepted


def test_a_stranger_does_not_move_the_epoch() -> None:
    node = machines.started(1)
    assert not machines.receive(node, 9, messages.AppendResponse(2**40, False, 0, 0, 0))
    assert node.epoch == 1


# --- nodes that are short of processor time ------------------------------------------------------


def test_a_candidate_that_fails_again_and_again_waits_longer_up_to_a_limit() -> None:
    node = machines.started(1, dice=lambda low, high: high)
    now, waits = 1.0, []
    for _ in range(6):
        node.expire(now)
        for voter in (2, 3):
            machines.receive(node, voter, messages.VoteResponse(1, 2, True, False), now)
        deadline = node.deadline()
        assert deadline is not None
        waits.append(deadline - now)
        now = deadline
    assert waits == pytest.approx([0.5, 1.0, 2.0, 2.0, 2.0, 2.0])
    machines.append(node, (1, 1), now=now)
    now += 2.0
    node.expire(now)
    for voter in (2, 3):
        machines.receive(node, voter, messages.VoteResponse(1, 2, True, False), now)
    assert node.deadline() == pytest.approx(now + 0.5)


def test_a_node_that_was_late_itself_gives_its_leader_another_timeout() -> None:
    node = machines.started(1)
    machines.append(node, (1, 1), now=10.0)
    assert node.deadline() == 11.0
    assert not node.expire(14.0)
    assert node.deadline() == 15.0
    assert node.leader_id == 2
    assert not machines.ask_for_vote(node, 3, 2, (1, 1), is_pre_vote=True, now=14.1)
    node.expire(15.0)
    assert machines.role(node) is Role.PROSPECTIVE


def test_messages_that_are_read_late_find_the_leader_excused() -> None:
    node = machines.started(1)
    machines.append(node, (1, 1), now=10.0)
    assert not machines.ask_for_vote(node, 3, 2, (1, 1), is_pre_vote=True, now=14.0)


def test_a_node_that_is_always_late_elects_after_all() -> None:
    node = machines.started(1)
    machines.append(node, (1, 1), now=10.0)
    for now in (12.0, 14.0, 16.0):
        node.expire(now)
        assert machines.role(node) is Role.FOLLOWER
    node.expire(18.0)
    assert machines.role(node) is Role.PROSPECTIVE
