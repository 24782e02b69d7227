"""What the nodes of a quorum send each other, declared as it travels.

Every message carries the sender's epoch; the connection identifies the sender. A message may be
lost, delayed, duplicated or overtaken by another: the state machine copes with all of these.

On the wire a message is ``[kind, field, field, ...]`` of plain values (msgpack). What may be large
travels beside it (`split_message`). Nodes of different versions talk to each other during a rolling
upgrade, so a message's version is the number of its fields: a new field goes to the end and has a
default, a node ignores the fields that it does not know and uses the defaults of those that are
missing. The same goes for `Entry`. A new kind goes to the end of `Message`; a node that does not
know it drops it, like a message that was lost. ``tests/golden/consensus`` keeps the bytes of every
version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, cast, get_args, get_type_hints

from minikafka.storage.disk import Buffer

__all__ = [
    "AppendRequest",
    "AppendResponse",
    "CampaignRequest",
    "DirectoryOf",
    "Entry",
    "JoinRequest",
    "LeaderHint",
    "MalformedQuorumMessage",
    "Message",
    "SnapshotRequest",
    "SnapshotResponse",
    "VoteRequest",
    "VoteResponse",
    "decode_message",
    "encode_message",
    "join_message",
    "split_message",
]

NUMBER_MAX: Final = 2**63 - 1
"""The largest index or position that is accepted."""
EPOCH_MAX: Final = 2**62
"""The largest epoch that is accepted, from messages and from files.

Each election needs a higher epoch, so a quorum that had adopted the largest number could never
elect a leader again. This one is out of reach: see `EPOCH_STEP_MAX` in ``raft``.
"""


class MalformedQuorumMessage(ValueError):
    """A peer sent something that is not a message of the quorum."""


class Entry(NamedTuple):
    """One entry of the log: the epoch of the leader that appended it, and what was decided.

    A leader begins with an entry whose payload is empty; it decides nothing.
    """

    epoch: int
    payload: bytes


class DirectoryOf(NamedTuple):
    """Which data directory a node has."""

    node_id: int
    directory_id: bytes


class VoteRequest(NamedTuple):
    """Asks for a vote.

    With ``is_pre_vote`` the answer promises nothing: ``epoch`` is the one that the sender would
    move to if a majority would vote for it (KIP-996). A candidate whose log is empty founds a
    cluster; ``directories`` are then those of the voters that gave it their pre-votes.
    ``voter_directory`` is the directory with which the receiver was added to the voter set that the
    sender's log records; empty if it records none.
    """

    epoch: int
    last_epoch: int
    last_index: int
    is_pre_vote: bool
    directories: tuple[DirectoryOf, ...] = ()
    voter_directory: bytes = b""


class VoteResponse(NamedTuple):
    """Answers `VoteRequest`; ``asked_epoch`` is the epoch that was asked for.

    ``directory_id`` and ``is_admitted`` say what the voter's directory is; see
    `minikafka.consensus.election`.
    """

    epoch: int
    asked_epoch: int
    is_pre_vote: bool
    is_granted: bool
    directory_id: bytes = b""
    is_admitted: bool = True


class AppendRequest(NamedTuple):
    """The leader's entries behind ``previous_index``; without entries it is a heartbeat.

    ``commit_index`` is the leader's; the receiver may commit that far, if it has that much.
    ``admitted_directory`` is the receiver's new directory once it may vote, empty otherwise; see
    `minikafka.consensus.leader`. ``has_voter_set``: the leader's log records who votes, so a
    receiver that does not know the leader as a voter believes it.
    """

    epoch: int
    previous_index: int
    previous_epoch: int
    commit_index: int
    entries: tuple[Entry, ...]
    admitted_directory: bytes = b""
    has_voter_set: bool = False


class AppendResponse(NamedTuple):
    """Answers `AppendRequest`, and `SnapshotRequest` when nothing more of it is needed.

    Accepted: the sender's log is on disk and equals the leader's up to ``last_index``. Otherwise
    it lacks the entry at ``previous_index``; the logs may agree at ``last_index``, where the sender
    has an entry of ``last_epoch``, but nowhere above. What the sender has stored counts for
    commits only if its directory ``is_admitted``. ``kraft_version_max`` says which records about
    the quorum itself the sender can read.
    """

    epoch: int
    is_accepted: bool
    previous_index: int
    last_index: int
    last_epoch: int
    directory_id: bytes = b""
    is_admitted: bool = True
    kraft_version_max: int = 0


class SnapshotRequest(NamedTuple):
    """A piece of the leader's snapshot of everything up to ``last_index``.

    The entry there is of ``last_epoch``. ``position`` is where the piece begins in the
    ``size_bytes`` bytes of the whole. ``has_voter_set`` is as in `AppendRequest`.
    """

    epoch: int
    last_index: int
    last_epoch: int
    size_bytes: int
    position: int
    piece: bytes
    has_voter_set: bool = False


class SnapshotResponse(NamedTuple):
    """The sender has the first ``position`` bytes of that snapshot and wants the rest."""

    epoch: int
    last_index: int
    position: int


class JoinRequest(NamedTuple):
    """An observer asks for entries; sent to all voters while it does not hear from a leader."""

    epoch: int


class CampaignRequest(NamedTuple):
    """The leader of ``epoch`` asks a voter with a complete log to campaign immediately."""

    epoch: int


class LeaderHint(NamedTuple):
    """Answers `JoinRequest`: another node leads, and this is the address that the log has for it.

    Only nodes whose log records the voters send it; others have them in their configuration.
    """

    epoch: int
    leader_id: int
    host: str
    port: int


Message = (
    VoteRequest
    | VoteResponse
    | AppendRequest
    | AppendResponse
    | SnapshotRequest
    | SnapshotResponse
    | JoinRequest
    | CampaignRequest
    | LeaderHint
)
"""A kind's number is its place here, from 0 on."""


def encode_message(message: Message) -> list[object]:
    """A message as a list of plain values, the inverse of `decode_message`."""
    return [_NUMBERS[type(message)], *message]


def split_message(message: Message) -> tuple[list[object], bytes]:
    """A message as a small list, and the bytes of its entries or of its piece of a snapshot.

    The inverse of `join_message`.
    """
    fields = encode_message(message)
    if isinstance(message, AppendRequest):
        fields[_ENTRIES_AT] = [(entry.epoch, len(entry.payload)) for entry in message.entries]
        return fields, b"".join([entry.payload for entry in message.entries])
    if isinstance(message, SnapshotRequest):
        fields[_PIECE_AT] = b""
        return fields, message.piece
    return fields, b""


def join_message(fields: object, attached: Buffer = b"") -> Message:
    """The message that a peer split.

    Args:
        fields: The unpacked list; lists may be tuples.
        attached: The bytes beside it.

    Raises:
        MalformedQuorumMessage: not a message; the text says what is wrong.
    """
    if not isinstance(fields, list | tuple):
        raise MalformedQuorumMessage("a quorum message is a list")
    joined = list(cast("Sequence[object]", fields))
    if joined[:1] == [_NUMBERS[AppendRequest]] and len(joined) > _ENTRIES_AT:
        joined[_ENTRIES_AT] = _cut_entries(joined[_ENTRIES_AT], memoryview(attached))
    elif joined[:1] == [_NUMBERS[SnapshotRequest]] and len(joined) > _PIECE_AT:
        joined[_PIECE_AT] = bytes(attached)
    return decode_message(joined)


def _cut_entries(heads: object, payloads: memoryview) -> list[tuple[object, bytes]]:
    """Entries from their (epoch, size) and the concatenated payloads."""
    entries: list[tuple[object, bytes]] = []
    position = 0
    if not isinstance(heads, list | tuple):
        raise MalformedQuorumMessage(f"{heads!r:.40} is not a list of entries")
    for head in cast("Sequence[object]", heads):
        if not isinstance(head, list | tuple) or len(cast("Sequence[object]", head)) < 2:
            raise MalformedQuorumMessage(f"{head!r:.40} is not the head of an entry")
        epoch, size_bytes = cast("Sequence[object]", head)[:2]
        if type(size_bytes) is not int or not 0 <= size_bytes <= len(payloads) - position:
            raise MalformedQuorumMessage(
                f"an entry of {size_bytes!r:.40} bytes, but only {len(payloads) - position} remain"
            )
        entries.append((epoch, bytes(payloads[position : position + size_bytes])))
        position += size_bytes
    return entries


def decode_message(value: object) -> Message:
    """The message that a peer encoded, in this version, an older or a newer one.

    Args:
        value: The unpacked list; lists may be tuples.

    Raises:
        MalformedQuorumMessage: not a message; the text says what is wrong.
    """
    if not isinstance(value, list | tuple) or not value:
        raise MalformedQuorumMessage("a quorum message is a list that is not empty")
    number, *fields = cast("Sequence[object]", value)
    if type(number) is not int or not 0 <= number < len(_KINDS):
        raise MalformedQuorumMessage(f"{number!r:.40} is not a kind of quorum message")
    kind = _KINDS[number]
    required = len(kind._fields) - len(kind._field_defaults)
    if len(fields) < required:
        raise MalformedQuorumMessage(
            f"a {kind.__name__} has at least {required} fields, this one has {len(fields)}"
        )
    decoded: list[object] = []
    for (name, read), field in zip(_READERS[kind], fields, strict=False):
        try:
            decoded.append(read(field))
        except ValueError:
            raise MalformedQuorumMessage(
                f"{field!r:.40} is not a valid {name} of a {kind.__name__}"
            ) from None
    message = cast("Callable[..., Message]", kind)(*decoded)
    if isinstance(message, AppendRequest):
        _check_epochs(message)
    return message


def _check_epochs(message: AppendRequest) -> None:
    """Epochs never decrease along a log, and none of its entries is of a later leader."""
    epochs = [message.previous_epoch, *(entry.epoch for entry in message.entries), message.epoch]
    if any(one > next_one for one, next_one in pairwise(epochs)):
        raise MalformedQuorumMessage(f"the epochs {epochs!r:.60} of an append decrease")


def _number(value: object) -> int:
    if type(value) is int and 0 <= value <= NUMBER_MAX:
        return value
    raise ValueError


def _epoch(value: object) -> int:
    if type(value) is int and 0 <= value <= EPOCH_MAX:
        return value
    raise ValueError


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    raise ValueError


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError


def _entries(value: object) -> tuple[Entry, ...]:
    if isinstance(value, list | tuple):
        return tuple(map(_entry, cast("Sequence[object]", value)))
    raise ValueError


def _entry(value: object) -> Entry:
    if isinstance(value, list | tuple):
        epoch, payload = cast("Sequence[object]", value)[:2]  # ValueError when there are fewer
        return Entry(_epoch(epoch), _bytes(payload))
    raise ValueError


def _directories(value: object) -> tuple[DirectoryOf, ...]:
    if isinstance(value, list | tuple):
        return tuple(map(_directory, cast("Sequence[object]", value)))
    raise ValueError


def _directory(value: object) -> DirectoryOf:
    if isinstance(value, list | tuple):
        node_id, directory_id = cast("Sequence[object]", value)[:2]  # as above
        return DirectoryOf(_number(node_id), _bytes(directory_id))
    raise ValueError


_KINDS: Final[tuple[type[Message], ...]] = get_args(Message)
_NUMBERS: Final = {kind: number for number, kind in enumerate(_KINDS)}
_READER_OF_TYPE: Final[dict[Any, Callable[[object], object]]] = {
    int: _number,
    bool: _flag,
    bytes: _bytes,
    str: _text,
    tuple[Entry, ...]: _entries,
    tuple[DirectoryOf, ...]: _directories,
}
_READERS: Final = {
    kind: [
        (name, _epoch if name.endswith("epoch") else _READER_OF_TYPE[hint])
        for name, hint in get_type_hints(kind).items()
    ]
    for kind in _KINDS
}
# Where the lists hold what `split_message` takes out; the kind comes first.
_ENTRIES_AT: Final = 1 + AppendRequest._fields.index("entries")
_PIECE_AT: Final = 1 + SnapshotRequest._fields.index("piece")
