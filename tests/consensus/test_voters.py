"""Voters that the log records, and changes of them, one at a time."""

from __future__ import annotations

from random import Random

import pytest

from minikafka import consensus
from minikafka.consensus import (
    Accepted,
    AddVoter,
    DurableLog,
    Entry,
    LostEntries,
    PersistEntries,
    QuorumConfig,
    RecordVoters,
    Refused,
    RemoveVoter,
    Role,
    Voter,
    VoterSet,
    Why,
)
from minikafka.consensus.messages import (
    AppendRequest,
    AppendResponse,
    CampaignRequest,
    JoinRequest,
    LeaderHint,
    SnapshotRequest,
    VoteRequest,
    VoteResponse,
)
from minikafka.consensus.snapshot import encode_snapshot
from minikafka.consensus.voters import UnknownControlRecord, decode_voters, encode_voters
from minikafka.storage.checked_file import pack
from minikafka.storage.memory_disk import MemoryDisk
from tests.consensus import machines

ONE, TWO = frozenset({1}), frozenset({1, 2})


def directory(node_id: int) -> bytes:
    return b"directory of %4d" % node_id


def voter(node_id: int) -> Voter:
    return Voter(node_id, directory(node_id), f"host-{node_id}", 19092)


def voters(*node_ids: int) -> VoterSet:
    return VoterSet(map(voter, node_ids))


def record(*node_ids: int, epoch: int = 1) -> Entry:
    return Entry(epoch, encode_voters(voters(*node_ids)))


def answer(
    node: consensus.RaftNode,
    sender: int,
    index: int | None = None,
    *,
    directory_id: bytes | None = None,
    is_admitted: bool = False,
    kraft_version_max: int = 1,
    now: float = 1.0,
) -> list[consensus.Effect]:
    """A node acknowledges everything up to an index, or all there is."""
    response = AppendResponse(
        node.epoch,
        True,
        0,
        node.log.last_index if index is None else index,
        0,
        directory(sender) if directory_id is None else directory_id,
        is_admitted,
        kraft_version_max,
    )
    return machines.receive(node, sender, response, now)


def leader(*node_ids: int, node_id: int = 1) -> consensus.RaftNode:
    """The leader of recorded voters, which has committed everything; the others follow."""
    configured = frozenset(node_ids)
    become = machines.started if configured == {node_id} else machines.leader
    node = become(1, node_id=node_id, voters=configured, directory_id=directory(node_id))
    for other in configured - {node_id}:
        answer(node, other, is_admitted=True)
    addresses = tuple((one, f"host-{one}", 19092) for one in node_ids)
    (accepted,) = machines.of_kind(node.handle(RecordVoters(addresses, "upgrade"), 1.0), Accepted)
    assert (accepted.token, accepted.index) == ("upgrade", node.log.last_index)
    for other in configured - {node_id}:
        answer(node, other, is_admitted=True)
    assert node.commit_index == node.log.last_index
    return node


def observe(node: consensus.RaftNode, observer: int) -> None:
    """A node observes, and has everything."""
    machines.receive(node, observer, JoinRequest(0), 1.0)
    answer(node, observer)


def why(effects: list[consensus.Effect]) -> Why:
    (refused,) = machines.of_kind(effects, Refused)
    assert refused.refusal is not None
    return refused.refusal.why


def add(node: consensus.RaftNode, node_id: int, now: float = 1.0) -> list[consensus.Effect]:
    return node.handle(AddVoter(voter(node_id), "add"), now)


def remove(node: consensus.RaftNode, node_id: int, now: float = 1.0) -> list[consensus.Effect]:
    return node.handle(RemoveVoter(node_id, directory(node_id), "remove"), now)


# --- records -------------------------------------------------------------------------------------


def test_a_record_that_a_later_version_wrote_stops_the_node() -> None:
    assert decode_voters(b"\x91decision") is None
    assert decode_voters(encode_voters(voters(2, 1))) == voters(1, 2)
    for payload in (b"\xc1", b"\xc1\x92\x07\x90", b"\xc1\x92\x00\x90", b"\xc1\x92\x00\x91\x91\x01"):
        with pytest.raises(UnknownControlRecord):
            decode_voters(payload)
    # Fields that it adds to a voter are ignored.
    row: list[int | bytes | str] = [*voter(1), "more"]
    longer = b"\xc1" + pack([0, [row], "and more"])
    assert decode_voters(longer) == voters(1)


def test_a_set_has_each_voter_once_and_is_not_empty() -> None:
    with pytest.raises(ValueError, match="no voter"):
        VoterSet([])
    with pytest.raises(ValueError, match="twice"):
        VoterSet([voter(1), voter(1)])
    assert hash(voters(1, 2)) == hash(voters(2, 1))


def test_the_log_knows_the_voters_at_each_index() -> None:
    log = consensus.RaftLog(0, 0, (), machines.no_older_entries, 10**6)
    log.append([record(1), Entry(1, b"x"), record(1, 2), Entry(1, b"y"), record(1, 2, 3)])
    assert (log.voters, log.voters_index) == (voters(1, 2, 3), 5)
    assert log.previous_voters == voters(1, 2)
    assert [log.voters_at(index) for index in (0, 1, 4)] == [None, voters(1), voters(1, 2)]
    log.truncate_to(5)
    assert (log.voters, log.previous_voters) == (voters(1, 2), voters(1))
    log.compact(4)
    assert (log.voters, log.voters_index) == (voters(1, 2), 3)
    log.truncate_to(5)
    assert log.voters == voters(1, 2)
    log.replace_by_snapshot(9, 2, voters(4))
    assert (log.voters, log.voters_index) == (voters(4), 9)
    log.replace_by_snapshot(10, 2)
    assert log.voters_index == 0


# --- files ---------------------------------------------------------------------------------------


def open_log(disk: MemoryDisk, node_id: int, *configured: int) -> DurableLog:
    config = QuorumConfig(node_id, frozenset(configured))
    return DurableLog.open(disk, "d", config, new_directory_id=lambda: directory(node_id))


def recorded(*node_ids: int, configured: tuple[int, ...] = (1,)) -> MemoryDisk:
    """The disk of node 1, whose log records voters."""
    disk = MemoryDisk(Random(1))
    disk.make_directory("d")
    durable = open_log(disk, 1, *configured)
    entries = (record(*node_ids), Entry(1, b"decision"))
    durable.log.append(entries)
    durable.write([PersistEntries(1, entries)], 2)
    durable.close(2)
    return disk


def test_recorded_voters_count_instead_of_configured_ones() -> None:
    disk = recorded(1, 2, 3)
    for configured in ((1,), (2, 3), (1, 2, 3)):
        durable = open_log(disk, 1, *configured)
        assert (durable.voters, durable.is_alone) == (frozenset({1, 2, 3}), False)
        assert [*durable.committed()] == [(2, b"decision")]
        durable.close(2)
    assert open_log(recorded(1, configured=(1, 2)), 1, 1, 2).is_alone


def test_recorded_voters_survive_a_snapshot() -> None:
    disk = recorded(1, 2)
    durable = open_log(disk, 1, 1)
    durable.compact(2, [b"state"])
    durable.close()
    again = open_log(disk, 1, 1)
    assert (again.voters, again.stored_snapshot()) == (TWO, (2, [b"state"]))


def test_a_log_that_has_lost_its_voters_is_refused() -> None:
    """The configured voter, this node alone, would elect itself with an empty log."""
    disk = recorded(1, 2)
    disk.remove("d/quorum.log")
    with pytest.raises(LostEntries, match=r"record of the voters \[1, 2\]"):
        open_log(disk, 1, 1)


# --- who may change the voters, and when ---------------------------------------------------------


def test_recorded_voters_are_the_configured_ones_with_their_directories() -> None:
    node = leader(1, 2, 3)
    assert node.log.voters == voters(1, 2, 3)


def test_configured_voters_are_recorded_only_when_all_of_them_can_read_it() -> None:
    node = machines.leader(1, voters=TWO, directory_id=directory(1))
    addresses = tuple((one, "host", 1) for one in (1, 2))
    assert why(node.handle(RecordVoters(addresses, "t"), 1.0)) is Why.NOT_READY
    answer(node, 2, is_admitted=True, kraft_version_max=0)
    assert why(node.handle(RecordVoters(addresses, "t"), 1.0)) is Why.UNREADABLE
    answer(node, 2, is_admitted=True)
    assert why(node.handle(RecordVoters(addresses[:1], "t"), 1.0)) is Why.UNKNOWN
    answer(node, 2, is_admitted=False)
    assert why(node.handle(RecordVoters(addresses, "t"), 1.0)) is Why.UNKNOWN
    answer(node, 2, is_admitted=True)
    machines.receive(node, 7, JoinRequest(0), 1.0)
    assert why(node.handle(RecordVoters(addresses, "t"), 1.0)) is Why.UNREADABLE
    assert why(add(node, 7)) is Why.NOT_RECORDED
    assert why(remove(node, 2)) is Why.NOT_RECORDED


def test_configured_voters_are_recorded_once() -> None:
    assert why(leader(1, 2).handle(RecordVoters((), "t"), 1.0)) is Why.RECORDED


def test_only_a_leader_changes_the_voters() -> None:
    assert why(add(machines.started(1), 4)) is Why.NOT_LEADER


def test_an_observer_that_has_everything_becomes_a_voter_at_once() -> None:
    node = leader(1)
    observe(node, 2)
    effects = add(node, 2)
    assert (node.voters, node.commit_index) == (TWO, node.log.last_index - 1)
    assert not machines.of_kind(effects, Refused)
    # It counts with its directory, and by the time it has the record, that is committed.
    assert node.progress()[2].is_counted
    answer(node, 2)
    assert node.commit_index == node.log.last_index


def test_a_node_that_lags_behind_or_is_silent_is_not_added() -> None:
    node = leader(1)
    assert why(add(node, 2)) is Why.LAGGING  # it does not observe
    machines.receive(node, 2, JoinRequest(0), 1.0)
    answer(node, 2, 1)
    assert why(add(node, 2)) is Why.LAGGING
    answer(node, 2)
    assert why(add(node, 2, now=2.5)) is Why.LAGGING
    answer(node, 2, directory_id=b"another", now=2.5)
    assert why(add(node, 2, now=2.5)) is Why.LAGGING
    answer(node, 2, kraft_version_max=0, now=2.5)
    assert why(add(node, 2, now=2.5)) is Why.UNREADABLE
    answer(node, 2, now=2.5)
    assert machines.of_kind(add(node, 2, now=2.5), Accepted)


def test_one_change_at_a_time() -> None:
    node = leader(1)
    observe(node, 2)
    observe(node, 3)
    add(node, 2)
    assert why(add(node, 3)) is Why.PENDING
    answer(node, 2)
    answer(node, 3)
    assert machines.of_kind(add(node, 3), Accepted)


def test_a_new_leader_commits_an_entry_before_it_changes_the_voters() -> None:
    node = leader(1, 2, 3)
    follower = machines.raft(node_id=2, directory_id=directory(2), is_admitted=True)
    log = node.log.entries(1, 10**6)
    machines.receive(follower, 1, AppendRequest(node.epoch, 0, 0, 3, log, has_voter_set=True))
    machines.handle(follower, consensus.PeerLost(1))
    deadline = follower.deadline()
    assert deadline is not None
    follower.expire(deadline)
    for is_pre_vote in (True, False):
        asked = follower.epoch + is_pre_vote
        machines.receive(follower, 3, VoteResponse(follower.epoch, asked, is_pre_vote, True))
    assert follower.role is Role.LEADER
    assert why(remove(follower, 1)) is Why.NOT_READY
    answer(follower, 3, is_admitted=True)
    assert machines.of_kind(remove(follower, 1), Accepted)


def test_a_voter_is_removed_if_a_majority_of_the_others_answers() -> None:
    node = leader(1, 2, 3)
    assert why(remove(node, 9)) is Why.NOT_FOUND
    assert why(node.handle(RemoveVoter(3, b"another", "t"), 1.0)) is Why.NOT_FOUND
    answer(node, 2, now=3.0)
    assert why(remove(node, 2, now=3.0)) is Why.MINORITY  # 3 is silent
    assert machines.of_kind(remove(node, 3, now=3.0), Accepted)
    assert node.voters == TWO
    answer(node, 2, now=3.0)
    assert machines.of_kind(remove(node, 2, now=3.0), Accepted)
    assert (node.voters, node.commit_index) == (ONE, node.log.last_index)
    assert why(remove(node, 1, now=3.0)) is Why.LAST


def test_a_leader_that_removes_itself_leads_until_that_is_committed_without_it() -> None:
    node = leader(1, 2, 3)
    remove(node, 1)
    answer(node, 2)
    # Two of three disks have it, but only one of the two voters.
    assert (node.role, node.commit_index) == (Role.LEADER, node.log.last_index - 1)
    effects = answer(node, 3)
    assert node.commit_index == node.log.last_index
    assert machines.role(node) is Role.OBSERVER
    assert machines.of_kind(machines.sent(effects, 2), CampaignRequest)
    assert node.deadline() is not None


# --- followers -----------------------------------------------------------------------------------


def follower(node_id: int, *, configured: frozenset[int] = ONE) -> consensus.RaftNode:
    return machines.started(
        node_id=node_id, voters=configured, directory_id=directory(node_id), is_admitted=False
    )


def follow(
    node: consensus.RaftNode,
    *entries: Entry,
    previous: tuple[int, int] = (0, 0),
    commit_index: int = 0,
    sender: int = 1,
    epoch: int = 1,
) -> list[consensus.Effect]:
    request = AppendRequest(epoch, *previous, commit_index, entries, has_voter_set=True)
    return machines.receive(node, sender, request, 1.0)


def test_an_observer_votes_as_soon_as_its_log_says_so_and_no_longer() -> None:
    node = follower(2)
    assert node.role is Role.OBSERVER
    follow(node, record(1), record(1, 2))
    assert (machines.role(node), node.is_admitted) == (Role.FOLLOWER, True)
    # Another leader's entry takes the place of the record.
    follow(node, Entry(2, b""), previous=(1, 1), epoch=2)
    assert (machines.role(node), node.is_admitted, node.voters) == (Role.OBSERVER, False, ONE)


def test_a_removed_voter_takes_part_until_it_knows_that_this_is_committed() -> None:
    """Its log may be the only one that can win: then nobody else could be elected."""
    node = follower(1, configured=TWO)
    follow(node, record(1, 2), record(2), sender=2)
    assert (node.role, node.voters, node.is_admitted) == (Role.FOLLOWER, frozenset({2}), True)
    follow(node, previous=(2, 1), commit_index=2, sender=2)
    assert (machines.role(node), node.is_admitted) == (Role.OBSERVER, False)


def test_a_removed_voter_can_be_elected_by_the_others() -> None:
    node = follower(1, configured=TWO)
    follow(node, record(1, 2), record(2), sender=2)
    machines.handle(node, consensus.PeerLost(2), 1.0)
    effects = node.expire(2.0)
    for is_pre_vote in (True, False):
        (request,) = machines.of_kind(machines.sent(effects, 2), VoteRequest)
        assert request.is_pre_vote is is_pre_vote
        response = VoteResponse(node.epoch, request.epoch, is_pre_vote, True)
        effects = machines.receive(node, 2, response, 2.0)
    assert node.role is Role.LEADER
    answer(node, 2, now=2.0)
    assert machines.role(node) is Role.OBSERVER


def test_a_new_voter_votes_for_a_candidate_that_knows_it_although_its_own_log_does_not() -> None:
    node = follower(3)
    follow(node, record(1))
    candidate = VoteRequest(2, 1, 2, False, voter_directory=directory(3))
    for request, is_granted in (
        (candidate._replace(voter_directory=b"another"), None),
        (candidate._replace(voter_directory=b""), None),
        (candidate._replace(last_index=0, last_epoch=0), False),
        (candidate, True),
    ):
        responses = machines.of_kind(
            machines.sent(machines.receive(node, 2, request, 9.0), 2), VoteResponse
        )
        assert [one.is_granted for one in responses] == ([] if is_granted is None else [is_granted])
    assert node.role is Role.OBSERVER  # until it has the record


def test_a_candidate_names_the_directory_with_which_a_voter_was_added() -> None:
    node = follower(2)
    follow(node, record(1, 2, 3))
    machines.handle(node, consensus.PeerLost(1), 1.0)
    requests = machines.of_kind(machines.sent(node.expire(2.0), 3), VoteRequest)
    assert [one.voter_directory for one in requests] == [directory(3)]


def test_a_leader_that_is_not_in_this_log_is_followed_if_its_own_records_the_voters() -> None:
    node = follower(2)
    assert follow(node, record(1, 4), sender=4)
    assert (node.leader_id, node.log.last_index) == (4, 1)


def test_voters_come_with_a_snapshot() -> None:
    node = follower(2)
    snapshot = encode_snapshot([encode_voters(voters(1, 2)), b"state"])
    request = SnapshotRequest(1, 5, 1, len(snapshot), 0, snapshot, has_voter_set=True)
    machines.receive(node, 4, request, 1.0)
    assert (node.voters, node.role, node.is_admitted) == (TWO, Role.FOLLOWER, True)


def test_an_observer_finds_a_leader_that_its_log_does_not_know() -> None:
    known = follower(2)
    follow(known, record(1, 2, 4), sender=4)
    (hint,) = machines.sent(machines.receive(known, 3, JoinRequest(0), 1.0), 3)
    assert hint == LeaderHint(1, 4, "host-4", 19092)
    lost = follower(3)
    effects = machines.receive(lost, 2, hint, 1.0)
    assert machines.sent(effects, 4) == [JoinRequest(0)]
    follow(lost, sender=4)
    assert not machines.receive(lost, 2, hint, 1.0)  # it has found it


def test_a_voter_without_a_leader_asks_whether_it_was_removed() -> None:
    node = follower(2)
    follow(node, record(1, 2))
    machines.handle(node, consensus.PeerLost(1), 1.0)
    asks: list[bool] = []
    for _ in range(3):
        deadline = node.deadline()
        assert deadline is not None
        sent = machines.sent(node.expire(max(deadline, 2.0)), 1)
        asks.append(any(isinstance(one, JoinRequest) for one in sent))
    assert asks == [False, False, True]  # an election that fails once or twice says little
