"""Nodes of a quorum whose memory is their disk, to be driven by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from minikafka import consensus
from minikafka.consensus.messages import AppendRequest, AppendResponse, VoteRequest, VoteResponse
from minikafka.consensus.snapshot import encode_snapshot

T = TypeVar("T")

THREE = frozenset({1, 2, 3})
FIVE = frozenset({1, 2, 3, 4, 5})
SNAPSHOT = encode_snapshot([b"snapshot"])


def entries(*epochs: int) -> tuple[consensus.Entry, ...]:
    return tuple(consensus.Entry(epoch, b"payload of epoch %d" % epoch) for epoch in epochs)


def no_older_entries(first: int, end: int, size_bytes_max: int) -> Sequence[consensus.Entry]:
    raise AssertionError("everything is in memory")


def lowest(low: float, high: float) -> float:
    """Dice without surprises."""
    return low


def raft(
    *epochs: int,
    node_id: int = 1,
    voters: frozenset[int] = THREE,
    epoch: int | None = None,
    vote: int | None = None,
    directory_id: bytes = b"",
    is_admitted: bool = True,
    commit_index: int = 0,
    base: tuple[int, int] = (0, 0),
    dice: Callable[[float, float], float] = lowest,
    read_snapshot: Callable[[], bytes] = lambda: SNAPSHOT,
    append_size_bytes_max: int = 10**6,
    appends_in_flight_max: int = 4,
    snapshot_piece_size_bytes: int = 4,
    snapshot_size_bytes_max: int = 100,
    observers_max: int = 2,
) -> consensus.RaftNode:
    """A node with one entry of each epoch behind the base; it has not started."""
    config = consensus.QuorumConfig(
        node_id,
        voters,
        append_size_bytes_max=append_size_bytes_max,
        appends_in_flight_max=appends_in_flight_max,
        snapshot_piece_size_bytes=snapshot_piece_size_bytes,
        snapshot_size_bytes_max=snapshot_size_bytes_max,
        observers_max=observers_max,
    )
    log = consensus.RaftLog(*base, entries(*epochs), no_older_entries, 10**6)
    return consensus.RaftNode(
        config,
        log,
        epoch=log.last_epoch if epoch is None else epoch,
        vote=vote,
        directory_id=directory_id,
        is_admitted=is_admitted,
        commit_index=max(commit_index, base[0]),
        read_snapshot=read_snapshot,
        dice=dice,
    )


def role(node: consensus.RaftNode) -> consensus.Role:
    """Its role now (type checkers believe that an attribute stays what it was)."""
    return node.role


def receive(
    node: consensus.RaftNode, sender: int, message: consensus.Message, now: float = 0.0
) -> list[consensus.Effect]:
    return node.handle(consensus.Received(sender, message), now)


def handle(
    node: consensus.RaftNode, event: consensus.Event, now: float = 0.0
) -> list[consensus.Effect]:
    return node.handle(event, now)


def sent(effects: Iterable[consensus.Effect], to: int | None = None) -> list[consensus.Message]:
    """The messages among effects, all or those to one node."""
    return [
        effect.message
        for effect in effects
        if isinstance(effect, consensus.Send) and to in {None, effect.node_id}
    ]


def of_kind(effects: Iterable[object], kind: type[T]) -> list[T]:
    return [effect for effect in effects if isinstance(effect, kind)]


def epochs_of(log: consensus.RaftLog) -> list[int]:
    """Epoch of each entry, the base left out."""
    return [log.epoch_at(index) for index in range(log.base_index + 1, log.last_index + 1)]


def elect(
    node: consensus.RaftNode, *, now: float = 0.0, voters: Iterable[int] = (2,)
) -> list[consensus.Effect]:
    """Let a node start, ask, and win; what it does as the leader.

    It wins with the votes of some, or, with an empty log, with those of all.
    """
    config = node._context.config
    if not node.log.last_index:
        voters = sorted(config.voters - {config.node_id})
    node.start(now)
    deadline = node.deadline()
    assert deadline is not None
    now = max(now, deadline)
    node.expire(now)
    effects: list[consensus.Effect] = []
    for is_pre_vote in (True, False):
        asked = node.epoch + is_pre_vote
        for voter in voters:
            response = VoteResponse(node.epoch, asked, is_pre_vote, True)
            effects = receive(node, voter, response, now)
    assert role(node) is consensus.Role.LEADER
    return effects


def started(*epochs: int, **options: Any) -> consensus.RaftNode:
    """A machine, see `raft`, that has started."""
    node = raft(*epochs, **options)
    node.start(0.0)
    return node


def leader(*epochs: int, **options: Any) -> consensus.RaftNode:
    """A machine, see `raft`, that node 2 has elected."""
    node = raft(*epochs, **options)
    elect(node)
    return node


def accept(
    node: consensus.RaftNode, sender: int, index: int | None = None, now: float = 0.0
) -> list[consensus.Effect]:
    """A follower acknowledges everything up to an index, or all there is."""
    last = node.log.last_index if index is None else index
    return receive(node, sender, AppendResponse(node.epoch, True, 0, last, 0), now)


def reject(
    node: consensus.RaftNode, sender: int, previous: int, index: int, epoch: int, now: float = 0.0
) -> list[consensus.Effect]:
    return receive(node, sender, AppendResponse(node.epoch, False, previous, index, epoch), now)


def append(
    node: consensus.RaftNode,
    previous: tuple[int, int],
    *epochs: int,
    leader: int = 2,
    epoch: int | None = None,
    commit_index: int = 0,
    now: float = 0.0,
) -> list[consensus.Effect]:
    """A leader sends entries behind (index, epoch)."""
    request = AppendRequest(
        node.epoch if epoch is None else epoch, *previous, commit_index, entries(*epochs)
    )
    return receive(node, leader, request, now)


def ask_for_vote(
    node: consensus.RaftNode,
    candidate: int,
    epoch: int,
    last: tuple[int, int],
    *,
    is_pre_vote: bool = False,
    now: float = 0.0,
) -> bool:
    """Whether a node grants a vote to a candidate whose log ends at (epoch, index)."""
    effects = receive(node, candidate, VoteRequest(epoch, *last, is_pre_vote), now)
    (response,) = of_kind(sent(effects, candidate), VoteResponse)
    assert (response.asked_epoch, response.is_pre_vote) == (epoch, is_pre_vote)
    return response.is_granted
