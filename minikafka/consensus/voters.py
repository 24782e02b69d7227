"""The voter set as the log records it (KIP-853).

Who votes is configuration until the log says it (`kraft.version` 0); from the first record on the
log wins (`kraft.version` 1). A record holds the whole set: each voter's node id, the directory that
it had when it was added, and its address. Sets that follow each other differ by one voter, so any
majority of one shares a voter with any majority of the next (D. Ongaro, "Consensus: Bridging Theory
and Practice", chapter 4). A node uses the last set in its log, committed or not, and returns to the
one before it when the record is truncated; `minikafka.consensus.membership` says when a leader may
append another.

A record is an entry's payload, and stands in a snapshot like any other payload. It begins with a
byte with which no decision begins (no msgpack does), so that a version that does not know it stops
instead of going on with the wrong voters. Behind it is the msgpack list ``[kind, voters]``; new
fields of `Voter` go to its end and have defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, cast

from minikafka.storage.checked_file import pack, unpack
from minikafka.storage.errors import StorageError

__all__ = [
    "KRAFT_VERSION_MAX",
    "UnknownControlRecord",
    "Voter",
    "VoterSet",
    "VotersRefusal",
    "Why",
    "decisions",
    "decode_voters",
    "encode_voters",
    "is_decision",
    "voters_in",
]

KRAFT_VERSION_MAX: Final = 1
"""The highest level of ``kraft.version`` that this version knows."""

_MARK: Final = b"\xc1"
_VOTERS: Final = 0


class UnknownControlRecord(StorageError):
    """The log holds a record about itself that this version does not know."""


class Voter(NamedTuple):
    """A voter as it was added.

    Attributes:
        node_id: its number; a set has each once.
        directory_id: of its data directory at that time, which needs no admission.
        host: of its internal listener, with ``port``.
        port: see ``host``.
    """

    node_id: int
    directory_id: bytes
    host: str
    port: int


class VoterSet:
    """Voters by node id; never changes, and is not empty.

    Attributes:
        voters: all of them, by ascending node id.
        ids: their node ids.
    """

    __slots__ = ("ids", "voters")

    def __init__(self, voters: Iterable[Voter]) -> None:
        self.voters: Final = tuple(sorted(voters))
        self.ids: Final = frozenset(one.node_id for one in self.voters)
        if not self.voters or len(self.ids) < len(self.voters):
            raise ValueError(f"{self.voters} has no voter, or one twice")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self.voters == other.voters

    def __hash__(self) -> int:
        return hash(self.voters)

    def __repr__(self) -> str:
        return f"VoterSet({self.voters!r})"

    def get(self, node_id: int) -> Voter | None:
        return next((one for one in self.voters if one.node_id == node_id), None)

    def directory_of(self, node_id: int) -> bytes:
        """The directory with which a node was added; empty if it is not a voter."""
        voter = self.get(node_id)
        return b"" if voter is None else voter.directory_id

    def names(self, node_id: int, directory_id: bytes) -> bool:
        """Whether a node was added with this directory."""
        return directory_id != b"" and self.directory_of(node_id) == directory_id

    def plus(self, voter: Voter) -> VoterSet:
        return VoterSet([*self.voters, voter])

    def minus(self, node_id: int) -> VoterSet:
        return VoterSet([one for one in self.voters if one.node_id != node_id])


class Why(Enum):
    """Why a leader does not change the voters."""

    NOT_LEADER = "this node does not lead the metadata quorum"
    NOT_READY = "the new leader has not committed anything yet"
    PENDING = "the previous change of the voters is not committed yet"
    RECORDED = "kraft.version is 1 already"
    NOT_RECORDED = "kraft.version is 0, so the voters are configuration"
    DUPLICATE = "the node is a voter already"
    NOT_FOUND = "the node is not a voter"
    LAST = "it is the only voter"
    LAGGING = "the node is not caught up"
    MINORITY = "the voters that answer would be no majority"
    UNREADABLE = "a node runs a version that cannot read the record"
    UNKNOWN = "a voter is not known well enough"


class VotersRefusal(NamedTuple):
    """Why the voters did not change, with the details for people."""

    why: Why
    message: str


def is_decision(payload: bytes) -> bool:
    """Whether a payload is for what the quorum decides about, not for the quorum itself."""
    return payload != b"" and not payload.startswith(_MARK)


def decisions(payloads: Iterable[bytes]) -> list[bytes]:
    """The payloads of a snapshot without what is about the quorum itself."""
    return [one for one in payloads if is_decision(one)]


def encode_voters(voters: VoterSet) -> bytes:
    """A record of the set, as the payload of an entry."""
    return _MARK + pack([_VOTERS, [list(one) for one in voters.voters]])


def decode_voters(payload: bytes) -> VoterSet | None:
    """The set that a payload records; None if it is about something else.

    Raises:
        UnknownControlRecord: it is about the quorum, and cannot be read.
    """
    if not payload.startswith(_MARK):
        return None
    try:
        kind, rows, *_ = cast("Sequence[Any]", unpack(payload[len(_MARK) :]))
        if kind != _VOTERS:
            raise ValueError(f"its kind is {kind!r:.40}")
        return VoterSet(_voter(row) for row in rows)
    except (ValueError, TypeError) as error:
        raise UnknownControlRecord(
            f"the metadata log has a record about its voters that cannot be read ({error}); was it "
            "written by a newer minikafka?"
        ) from None


def _voter(row: Sequence[Any]) -> Voter:
    voter = Voter(*row[: len(Voter._fields)])
    if tuple(map(type, voter)) != (int, bytes, str, int):
        raise TypeError(f"{row!r:.80} is not a voter")
    return voter


def voters_in(payloads: Iterable[bytes]) -> VoterSet | None:
    """The set that a snapshot records, if it does.

    Raises:
        UnknownControlRecord: it records something that this version does not know.
    """
    found: VoterSet | None = None
    for payload in payloads:
        found = decode_voters(payload) or found
    return found
