"""Followers whose entries the leader no longer has get its snapshot, piece by piece."""

from __future__ import annotations

import pytest

from minikafka import consensus
from minikafka.consensus import messages
from minikafka.consensus.progress import Stage
from minikafka.consensus.snapshot import MalformedSnapshot, decode_snapshot, encode_snapshot
from tests.consensus.machines import (
    SNAPSHOT,
    accept,
    append,
    elect,
    entries,
    leader,
    of_kind,
    raft,
    receive,
    reject,
    role,
    sent,
    started,
)


def pieces(effects: list[consensus.Effect], to: int = 2) -> list[tuple[int, int]]:
    """(index, position) of each piece sent to a node."""
    requests = of_kind(sent(effects, to), messages.SnapshotRequest)
    return [(request.last_index, request.position) for request in requests]


def offer(
    node: consensus.RaftNode,
    position: int,
    piece: bytes,
    *,
    epoch: int = 1,
    last: tuple[int, int] = (5, 1),
    size_bytes: int = len(SNAPSHOT),
    leader: int = 2,
) -> list[consensus.Effect]:
    message = messages.SnapshotRequest(epoch, *last, size_bytes, position, piece)
    return receive(node, leader, message)


def test_a_snapshot_goes_from_leader_to_follower() -> None:
    """Both machines, joined by hand."""
    leader = raft(3, base=(5, 2), appends_in_flight_max=8)
    elect(leader)
    follower = raft(1, 1, node_id=2, epoch=1)
    follower.start(0.0)
    waiting = reject(leader, 2, 6, 2, 1)
    assert pieces(waiting) == [(5, 0)]
    installed: list[consensus.Effect] = []
    for _ in range(10):
        answers: list[consensus.Effect] = []
        for message in sent(waiting, 2):
            answers += receive(follower, 1, message)
        installed += answers
        waiting = []
        for message in sent(answers, 1):
            waiting += receive(leader, 2, message)
        if not sent(waiting, 2):
            break
    assert of_kind(installed, consensus.PersistSnapshot) == [
        consensus.PersistSnapshot(5, 2, SNAPSHOT)
    ]
    assert consensus.SnapshotInstalled(5) in installed
    assert follower.log.base_index == 5
    assert follower.commit_index == leader.commit_index == leader.log.last_index == 7
    assert leader.progress()[2].stage is Stage.REPLICATE


def test_the_snapshot_is_installed_before_it_is_acknowledged() -> None:
    node = started(epoch=1)
    effects = offer(node, 0, SNAPSHOT)
    assert effects[-3:] == [
        consensus.PersistSnapshot(5, 1, SNAPSHOT),
        consensus.SnapshotInstalled(5),
        effects[-1],
    ]
    assert sent(effects) == [messages.AppendResponse(1, True, 5, 5, 0, kraft_version_max=1)]
    assert (node.log.base_index, node.log.last_index, node.commit_index) == (5, 5, 5)


def test_pieces_that_are_repeated_or_missing_are_asked_for_again() -> None:
    node = started(epoch=1)
    assert sent(offer(node, 4, SNAPSHOT[4:])) == [messages.SnapshotResponse(1, 5, 0)]
    assert sent(offer(node, 0, SNAPSHOT[:4])) == [messages.SnapshotResponse(1, 5, 4)]
    assert sent(offer(node, 0, SNAPSHOT[:4])) == [messages.SnapshotResponse(1, 5, 4)]
    effects = offer(node, 4, SNAPSHOT[4:] + b"too much")
    assert of_kind(effects, consensus.PersistSnapshot) == [
        consensus.PersistSnapshot(5, 1, SNAPSHOT)
    ]


def test_pieces_of_two_snapshots_are_not_mixed() -> None:
    node = started(epoch=1)
    offer(node, 0, SNAPSHOT[:4])
    assert sent(offer(node, 4, SNAPSHOT[4:], last=(6, 1))) == [messages.SnapshotResponse(1, 6, 0)]
    offer(node, 0, SNAPSHOT[:4])
    # Another leader's snapshot of the same index need not have the same bytes.
    effects = offer(node, 4, SNAPSHOT[4:], epoch=2, leader=3)
    assert sent(effects) == [messages.SnapshotResponse(2, 5, 0)]


def test_a_snapshot_that_the_log_covers_removes_nothing() -> None:
    """What follows in the log may have been acknowledged."""
    node = started(1, 1, 1, 1)
    effects = offer(node, 0, b"", last=(3, 1))
    assert of_kind(effects, consensus.Committed) == [consensus.Committed(3)]
    assert sent(effects) == [messages.AppendResponse(1, True, 3, 3, 0, kraft_version_max=1)]
    assert node.log.last_index == 4
    assert sent(offer(node, 0, b"", last=(2, 1))) == [
        messages.AppendResponse(1, True, 3, 3, 0, kraft_version_max=1)
    ]


def test_a_snapshot_that_contradicts_the_log_replaces_it() -> None:
    node = started(1, 1, 1, 1, 1, 1)
    offer(node, 0, SNAPSHOT, epoch=2, last=(3, 2))
    assert (node.log.base_index, node.log.last_index) == (3, 3)


def test_a_snapshot_that_is_too_large_or_malformed_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = started(epoch=1)
    assert not sent(offer(node, 0, b"x", size_bytes=101))
    assert "more than the 100 allowed" in caplog.text
    assert not sent(offer(node, 0, b"nonsense!", size_bytes=9))
    assert "something that is not a snapshot" in caplog.text
    assert node.log.last_index == 0


@pytest.mark.parametrize("snapshot", [b"", b"\xc1", b"\x01", encode_snapshot([]) + b"x"])
def test_bytes_that_are_no_snapshot(snapshot: bytes) -> None:
    with pytest.raises(MalformedSnapshot):
        decode_snapshot(snapshot)


def test_a_snapshot_is_a_list_of_byte_strings() -> None:
    assert decode_snapshot(encode_snapshot([b"a", b""])) == [b"a", b""]
    with pytest.raises(MalformedSnapshot, match="list of byte strings"):
        decode_snapshot(b"\x91\x01")


def test_the_leader_repeats_a_piece_with_the_heartbeat_and_starts_over_with_a_newer_one() -> None:
    reads: list[int] = []

    def read_snapshot() -> bytes:
        reads.append(1)
        return SNAPSHOT

    node = leader(2, 2, base=(5, 2), read_snapshot=read_snapshot)
    accept(node, 3)
    assert pieces(reject(node, 2, 7, 0, 0)) == [(5, 0)]
    assert pieces(receive(node, 2, messages.SnapshotResponse(3, 5, 4))) == [(5, 4)]
    assert pieces(receive(node, 2, messages.SnapshotResponse(3, 4, 9))) == []  # of another snapshot
    assert pieces(receive(node, 2, messages.SnapshotResponse(2, 5, 4))) == []  # of another epoch
    accept(node, 3)  # commits again: nothing goes to a node that has not answered
    assert pieces(node.expire(0.5)) == [(5, 4)]
    node.log.compact(6)
    assert pieces(node.expire(0.75)) == [(6, 0)]
    assert len(reads) == 2
    assert pieces(receive(node, 2, messages.SnapshotResponse(3, 5, 8))) == []
    assert reject(node, 2, 7, 0, 0) == []  # an answer from before
    effects = accept(node, 2, 6)
    requests = of_kind(sent(effects, 2), messages.AppendRequest)
    assert [(one.previous_index, len(one.entries)) for one in requests] == [(6, 2)]
    assert node._leader._snapshot == (0, b"")  # not kept longer than needed


def test_an_acknowledgement_below_the_snapshot_changes_nothing() -> None:
    node = leader(2, base=(5, 2))
    reject(node, 2, 6, 0, 0)
    accept(node, 2, 3)
    assert node.progress()[2].stage is Stage.SNAPSHOT


def test_snapshot_responses_of_nodes_that_receive_none_are_ignored() -> None:
    node = leader(2, base=(5, 2))
    assert receive(node, 2, messages.SnapshotResponse(3, 5, 4)) == []
    assert receive(node, 9, messages.SnapshotResponse(3, 5, 4)) == []
    follower = raft(2)
    follower.start(0.0)
    assert receive(follower, 2, messages.SnapshotResponse(2, 5, 4)) == []
    assert role(follower) is consensus.Role.FOLLOWER


def test_entries_that_were_compacted_away_meanwhile_need_a_snapshot() -> None:
    node = leader(1, 1, 1)
    accept(node, 3)
    node.log.compact(4)
    assert pieces(node.expire(0.5)) == [(4, 0)]


def test_an_append_below_the_base_is_answered_with_the_log_end() -> None:
    node = started(2, base=(5, 2))
    effects = append(node, (2, 1), 1, 1)
    assert sent(effects) == [messages.AppendResponse(2, True, 5, 5, 0, kraft_version_max=1)]


def test_entries_follow_a_snapshot() -> None:
    node = started(epoch=1)
    offer(node, 0, SNAPSHOT)
    append(node, (5, 1), 1)
    assert node.log.entries(6, 1000) == entries(1)
    assert node.log.entries(6, 1000)[0] == consensus.Entry(1, b"payload of epoch 1")
