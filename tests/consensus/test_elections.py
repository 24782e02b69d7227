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
)
from minikafka.consensus.messages import (
    AppendRequest,
    AppendResponse,
    CampaignRequest,
    VoteRequest,
    VoteResponse,
)
from tests.consensus.machines import (
    FIVE,
    accept,
    append,
    ask_for_vote,
    elect,
    handle,
    of_kind,
    raft,
    receive,
    role,
    sent,
)


def test_a_quorum_of_one_leads_at_once_and_needs_no_timer() -> None:
    node = raft(voters=frozenset({1}))
    effects = node.start(0.0)
    assert role(node) is Role.LEADER
    assert node.is_ready
    assert node.deadline() is None
    assert effects[0] == PersistState(1, 1)
    assert not sent(effects)
    assert not node.expire(1000.0)
    assert role(node) is Role.LEADER


def test_a_voter_waits_then_asks_then_campaigns_then_leads() -> None:
    node = raft(1, 1)
    assert not sent(node.start(10.0))
    assert not node.expire(10.0)  # too early
    deadline = node.deadline()
    assert deadline == 10.125
    effects = node.expire(deadline)
    assert role(node) is Role.PROSPECTIVE
    assert effects[1:] == [Send(to, VoteRequest(2, 1, 2, True)) for to in (2, 3)]
    assert node.epoch == 1  # a pre-vote promises nothing
    effects = receive(node, 2, VoteResponse(1, 2, True, True), deadline)
    assert role(node) is Role.CANDIDATE
    assert effects[0] == PersistState(2, 1)  # before anybody is asked
    assert sent(effects) == [VoteRequest(2, 1, 2, False)] * 2
    effects = receive(node, 3, VoteResponse(2, 2, False, True), deadline)
    assert role(node) is Role.LEADER
    assert node.leader_id == 1
    assert of_kind(effects, RoleChanged) == [RoleChanged(Role.LEADER, 2, 1)]
    assert of_kind(sent(effects, 2), AppendRequest)[0].entries[0].payload == b""


def test_two_of_five_are_no_majority() -> None:
    node = raft(voters=FIVE)
    node.start(0.0)
    node.expire(1.0)
    receive(node, 2, VoteResponse(0, 1, True, True), 1.0)
    assert role(node) is Role.PROSPECTIVE
    receive(node, 2, VoteResponse(0, 1, True, True), 1.0)  # the same one again
    assert role(node) is Role.PROSPECTIVE
    receive(node, 3, VoteResponse(0, 1, True, True), 1.0)
    assert role(node) is Role.CANDIDATE


def test_answers_that_come_too_late_count_for_nothing() -> None:
    node = raft()
    node.start(0.0)
    receive(node, 2, VoteResponse(0, 1, True, True), 0.0)
    assert role(node) is Role.FOLLOWER
    node.expire(1.0)
    receive(node, 2, VoteResponse(0, 1, False, True), 1.0)  # of an older campaign
    receive(node, 9, VoteResponse(0, 1, True, True), 1.0)  # not a voter
    assert role(node) is Role.PROSPECTIVE
    receive(node, 2, VoteResponse(0, 1, True, True), 1.0)
    receive(node, 3, VoteResponse(0, 1, True, True), 1.0)  # a pre-vote is no vote
    assert role(node) is Role.CANDIDATE


def test_who_cannot_win_any_more_tries_again_soon() -> None:
    node = raft()
    node.start(0.0)
    node.expire(1.0)
    receive(node, 2, VoteResponse(0, 1, True, False), 1.0)
    assert role(node) is Role.PROSPECTIVE  # the third may say yes
    receive(node, 3, VoteResponse(0, 1, True, False), 1.0)
    assert role(node) is Role.FOLLOWER
    assert node.deadline() == 1.125
    node.expire(1.125)
    assert role(node) is Role.PROSPECTIVE
    handle(node, PeerLost(2), 1.2)
    assert role(node) is Role.PROSPECTIVE
    handle(node, PeerLost(3), 1.2)
    assert role(node) is Role.FOLLOWER


def test_an_election_without_answers_is_begun_anew_with_a_pre_vote() -> None:
    node = raft()
    node.start(0.0)
    node.expire(1.0)
    receive(node, 2, VoteResponse(0, 1, True, True), 1.0)
    assert role(node) is Role.CANDIDATE
    node.expire(2.0)
    assert role(node) is Role.PROSPECTIVE
    assert node.epoch == 1
    node.expire(3.0)
    assert role(node) is Role.PROSPECTIVE
    assert node.epoch == 1


@pytest.mark.parametrize("is_pre_vote", [True, False])
def test_a_vote_needs_a_log_that_is_not_behind(is_pre_vote: bool) -> None:
    for last, is_granted in [((2, 9), False), ((3, 2), False), ((3, 3), True), ((4, 1), True)]:
        node = raft(1, 2, 3)
        node.start(0.0)
        assert ask_for_vote(node, 2, 5, last, is_pre_vote=is_pre_vote) is is_granted


def test_a_vote_is_given_once_in_an_epoch_and_is_on_disk_first() -> None:
    node = raft(1)
    node.start(0.0)
    effects = receive(node, 2, VoteRequest(2, 1, 1, False))
    assert of_kind(effects, PersistState) == [PersistState(2, None), PersistState(2, 2)]
    assert effects[-1] == Send(2, VoteResponse(2, 2, False, True))
    assert not ask_for_vote(node, 3, 2, (1, 1))
    assert ask_for_vote(node, 2, 2, (1, 1))  # the answer was lost
    assert ask_for_vote(node, 3, 3, (1, 1))
    again = raft(1, epoch=3, vote=node.vote)
    again.start(0.0)
    assert not ask_for_vote(again, 2, 3, (1, 1))
    assert not ask_for_vote(again, 3, 2, (1, 1))  # an epoch that is over


def test_who_has_a_leader_votes_for_nobody_in_its_epoch() -> None:
    node = raft(1)
    node.start(0.0)
    append(node, (1, 1), 2, epoch=2)
    assert not ask_for_vote(node, 3, 2, (2, 2))
    assert not ask_for_vote(node, 3, 3, (2, 2), is_pre_vote=True)
    assert ask_for_vote(node, 3, 3, (2, 2))


def test_a_pre_vote_changes_nothing() -> None:
    node = raft(1)
    node.start(0.0)
    effects = receive(node, 2, VoteRequest(7, 1, 1, True))
    assert not of_kind(effects, PersistState)
    assert (node.epoch, node.vote, node.role) == (1, None, Role.FOLLOWER)
    assert ask_for_vote(node, 3, 7, (1, 1), is_pre_vote=True)
    assert not ask_for_vote(node, 3, 1, (1, 1), is_pre_vote=True)  # we are there already


def test_a_follower_that_hears_its_leader_gives_no_pre_vote_until_it_is_silent() -> None:
    node = raft(1, epoch=1)
    node.start(0.0)
    append(node, (1, 1), now=10.0)
    assert not ask_for_vote(node, 3, 2, (1, 1), is_pre_vote=True, now=10.9)
    assert ask_for_vote(node, 3, 2, (1, 1), is_pre_vote=True, now=11.0)


def test_a_leader_gives_no_pre_vote() -> None:
    node = raft()
    elect(node)
    assert not ask_for_vote(node, 3, 9, (9, 9), is_pre_vote=True)


def test_who_gave_a_pre_vote_stands_back_once() -> None:
    node = raft(1)
    node.start(0.0)
    ask_for_vote(node, 2, 2, (1, 1), is_pre_vote=True, now=0.1)
    assert node.deadline() == 0.6
    ask_for_vote(node, 2, 2, (1, 1), is_pre_vote=True, now=0.5)
    assert node.deadline() == 0.6  # perhaps the other never hears the answers


def test_a_prospective_that_votes_for_another_stops_asking() -> None:
    node = raft(1)
    node.start(0.0)
    node.expire(1.0)
    assert ask_for_vote(node, 2, 1, (1, 1), now=1.0)
    assert role(node) is Role.FOLLOWER
    receive(node, 3, VoteResponse(1, 2, True, True), 1.0)
    assert node.epoch == 1


@pytest.mark.parametrize("is_pre_vote", [True, False])
def test_strangers_are_not_voted_for(is_pre_vote: bool) -> None:
    node = raft()
    node.start(0.0)
    assert not receive(node, 9, VoteRequest(1, 1, 1, is_pre_vote))
    assert node.epoch == 0


@pytest.mark.parametrize("is_pre_vote", [True, False])
def test_observers_do_not_vote(is_pre_vote: bool) -> None:
    node = raft(node_id=7)
    node.start(0.0)
    assert not sent(receive(node, 2, VoteRequest(1, 1, 1, is_pre_vote)))


def test_a_message_from_oneself_is_ignored() -> None:
    node = raft()
    node.start(0.0)
    assert not receive(node, 1, VoteRequest(9, 9, 9, False))
    assert node.epoch == 0


def test_a_higher_epoch_ends_a_reign_and_a_candidacy() -> None:
    for message in (
        VoteResponse(9, 9, True, False),
        VoteRequest(9, 0, 0, False),
        AppendResponse(9, False, 0, 0, 0),
        AppendRequest(9, 0, 0, 0, ()),
    ):
        leader = raft()
        elect(leader)
        candidate = raft()
        candidate.start(0.0)
        candidate.expire(1.0)
        receive(candidate, 3, VoteResponse(0, 1, True, True), 1.0)
        for node in (leader, candidate):
            effects = receive(node, 2, message, 2.0)
            assert effects[0] == PersistState(9, None)
            assert node.epoch == 9
            assert role(node) is Role.FOLLOWER
            assert node.leader_id == (2 if isinstance(message, AppendRequest) else None)


def test_a_leader_of_an_older_epoch_learns_that_its_time_is_over() -> None:
    node = raft(epoch=5)
    node.start(0.0)
    effects = append(node, (0, 0), 4, epoch=4)
    assert sent(effects) == [AppendResponse(5, False, 0, 0, 0)]
    assert node.log.last_index == 0


def test_leaders_who_are_no_voters_are_ignored() -> None:
    node = raft()
    node.start(0.0)
    assert not append(node, (0, 0), 1, leader=9, epoch=9)
    assert node.epoch == 0


def test_two_leaders_in_one_epoch_are_a_misconfiguration_that_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    follower = raft()
    follower.start(0.0)
    append(follower, (0, 0), epoch=1, leader=2)
    assert not append(follower, (0, 0), epoch=1, leader=3)
    leader = raft()
    elect(leader)
    assert not append(leader, (0, 0), leader=3)
    assert caplog.text.count("two processes use one node id") == 2


# --- what makes elections quick ------------------------------------------------------------------


def test_a_follower_whose_leader_died_asks_at_once() -> None:
    node = raft(1, dice=lambda low, high: high)
    node.start(0.0)
    append(node, (1, 1), now=10.0)
    assert node.deadline() == 12.0
    effects = handle(node, PeerLost(3), 10.0)  # not the leader
    assert not effects
    assert node.deadline() == 12.0
    effects = handle(node, PeerLost(2), 10.0)
    assert effects == [RoleChanged(Role.FOLLOWER, 1, None)]
    assert node.deadline() == 10.05
    handle(node, PeerLost(2), 10.01)
    assert node.deadline() == 10.05
    node.expire(10.05)
    assert role(node) is Role.PROSPECTIVE


def test_a_loss_before_the_start_is_no_reason_to_hurry() -> None:
    node = raft()
    handle(node, PeerLost(2), 1.0)
    assert node.deadline() == 1.0


def test_last_words_of_a_dead_leader_do_not_revive_it_but_its_entries_count() -> None:
    node = raft(1)
    node.start(0.0)
    append(node, (1, 1), now=10.0)
    handle(node, PeerLost(2), 10.0)
    append(node, (1, 1), 1, now=10.1)
    assert node.log.last_index == 2
    assert node.leader_id is None
    assert ask_for_vote(node, 3, 2, (1, 2), is_pre_vote=True, now=10.1)
    append(node, (2, 1), now=10.3)  # so it lives after all
    assert node.leader_id == 2


# --- handing over --------------------------------------------------------------------------------


def takes_proposals(node: RaftNode) -> bool:
    return node.is_ready


def test_a_leader_hands_over_to_the_voter_with_the_longest_log() -> None:
    node = raft(1, 1, voters=FIVE)
    elect(node, voters=(2, 3))
    accept(node, 2, 2)
    accept(node, 4)
    accept(node, 5)
    accept(node, 3, 2)
    assert takes_proposals(node)
    handle(node, PeerLost(4))
    effects = handle(node, TransferLeadership())
    assert sent(effects, 5) == [CampaignRequest(node.epoch)]
    assert not takes_proposals(node)
    node.expire(0.6)
    assert not takes_proposals(node)
    for sender in (2, 3, 5):
        accept(node, sender, now=1.0)
    node.expire(1.2)  # nobody took over: go on
    assert takes_proposals(node)


def test_a_successor_is_brought_up_to_date_before_it_takes_over() -> None:
    node = raft(1, 1)
    elect(node)
    effects = handle(node, TransferLeadership(3))
    assert not of_kind(sent(effects), CampaignRequest)
    effects = accept(node, 3)
    assert of_kind(sent(effects, 3), CampaignRequest)
    assert not of_kind(sent(accept(node, 2)), CampaignRequest)


def test_only_a_leader_hands_over_and_only_to_a_voter_that_is_there() -> None:
    node = raft()
    node.start(0.0)
    assert not handle(node, TransferLeadership())
    elect(node)
    for target in (1, 9):
        assert not handle(node, TransferLeadership(target))
    accept(node, 2)
    assert node.is_ready
    for lost in (2, 3):
        handle(node, PeerLost(lost))
    assert not handle(node, TransferLeadership())
    assert node.is_ready


def test_who_is_asked_to_take_over_campaigns_without_a_pre_vote() -> None:
    node = raft(1)
    node.start(0.0)
    append(node, (1, 1))
    for sender, epoch in ((3, 1), (2, 0)):
        assert not receive(node, sender, CampaignRequest(epoch))
    effects = receive(node, 2, CampaignRequest(1))
    assert role(node) is Role.CANDIDATE
    assert sent(effects) == [VoteRequest(2, 1, 1, False)] * 2


def test_a_leader_whose_disk_fails_asks_another_one_and_drops_what_it_was_doing() -> None:
    node = raft(1)
    elect(node)
    accept(node, 3)
    assert node.resign(0.0) == [Send(3, CampaignRequest(node.epoch))]
    follower = raft(1)
    follower.start(0.0)
    assert not follower.resign(0.0)


# --- check quorum --------------------------------------------------------------------------------


def test_a_leader_that_hears_no_majority_steps_down() -> None:
    node = raft(voters=FIVE)
    elect(node, now=0.0, voters=(2, 3))
    begin = node.deadline()
    assert begin is not None
    accept(node, 2, now=begin + 0.5)
    accept(node, 3, now=begin + 0.5)
    node.expire(begin + 1.4)
    assert role(node) is Role.LEADER
    effects = node.expire(begin + 1.7)
    assert role(node) is Role.FOLLOWER
    assert of_kind(effects, RoleChanged) == [RoleChanged(Role.FOLLOWER, 1, None)]
    assert not node.progress()
    assert not node.is_ready


def test_a_role_that_cannot_follow_is_a_bug() -> None:
    node = raft()
    elect(node)
    with pytest.raises(RuntimeError, match="a Leader cannot become a Candidate"):
        node._election.campaign()


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one voter"):
        QuorumConfig(1, frozenset())
    with pytest.raises(ValueError, match="heartbeat_s"):
        QuorumConfig(1, frozenset({1}), heartbeat_s=2.0)
