"""What the nodes of a quorum say to each other, and how it looks as plain lists.

Every message carries the sender's epoch; who sent it is known from the connection. A message may
be lost, delayed, duplicated or overtaken by another: the machine relies on none of that not
happening. On the wire a message is ``[kind, field, field, ...]`` of plain values (msgpack); fields
are only ever added at the end, and those a node does not know are ignored. What may be large can
travel beside it (`split_message`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from minikafka.storage.disk import Buffer

__all__ = [
    "AppendRequest",
    "AppendResponse",
    "CampaignRequest",
    "Entry",
    "JoinRequest",
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

INDEX_MAX: Final = 2**63 - 1
"""Largest epoch, index or position that is believed."""


class MalformedQuorumMessage(ValueError):
    """A peer sent something that is no message of the quorum."""


class Entry(NamedTuple):
    """One entry of the log: the epoch of the leader that made it, and what was decided.

    An empty payload is the entry with which a leader begins; it decides nothing.
    """

    epoch: int
    payload: bytes


class VoteRequest(NamedTuple):
    """Asks for a vote.

    With ``is_pre_vote`` nothing is promised by the answer: ``epoch`` is the one the sender would
    go to if a majority answered that it would vote for it (KIP-996).
    """

    epoch: int
    last_epoch: int
    last_index: int
    is_pre_vote: bool


class VoteResponse(NamedTuple):
    """Answers `VoteRequest`; ``asked_epoch`` is the epoch that was asked for."""

    epoch: int
    asked_epoch: int
    is_pre_vote: bool
    is_granted: bool


class AppendRequest(NamedTuple):
    """The leader's entries behind ``previous_index``; without entries it is a heartbeat.

    ``commit_index`` is the leader's; the receiver may commit that far, if it has that much.
    """

    epoch: int
    previous_index: int
    previous_epoch: int
    commit_index: int
    entries: tuple[Entry, ...]


class AppendResponse(NamedTuple):
    """Answers `AppendRequest`, and `SnapshotRequest` when nothing more of it is needed.

    Accepted: the sender's log is on disk and equals the leader's up to ``last_index``. Otherwise
    it does not have the entry at ``previous_index``; the logs may agree at ``last_index``, where
    the sender has an entry of ``last_epoch``, and agree nowhere above.
    """

    epoch: int
    is_accepted: bool
    previous_index: int
    last_index: int
    last_epoch: int


class SnapshotRequest(NamedTuple):
    """A piece of the leader's snapshot of everything up to ``last_index``.

    The entry there is of ``last_epoch``. ``position`` is where the piece begins in the
    ``size_bytes`` bytes of the whole.
    """

    epoch: int
    last_index: int
    last_epoch: int
    size_bytes: int
    position: int
    piece: bytes


class SnapshotResponse(NamedTuple):
    """The sender has the first ``position`` bytes of that snapshot and wants what follows."""

    epoch: int
    last_index: int
    position: int


class JoinRequest(NamedTuple):
    """An observer asks whoever leads for entries; sent to all voters while it hears no leader."""

    epoch: int


class CampaignRequest(NamedTuple):
    """The leader of ``epoch`` asks a voter with a complete log to take over at once."""

    epoch: int


Message = (
    VoteRequest
    | VoteResponse
    | AppendRequest
    | AppendResponse
    | SnapshotRequest
    | SnapshotResponse
    | JoinRequest
    | CampaignRequest
)

_KINDS: Final[tuple[type[Message], ...]] = (
    VoteRequest,
    VoteResponse,
    AppendRequest,
    AppendResponse,
    SnapshotRequest,
    SnapshotResponse,
    JoinRequest,
    CampaignRequest,
)
"""The number of a kind is its place here; a new one goes to the end."""

_NUMBERS: Final = {kind: number for number, kind in enumerate(_KINDS)}


def encode_message(message: Message) -> list[object]:
    """A message as a list of plain values, `decode_message` of which is the message again."""
    return [_NUMBERS[type(message)], *message]


def split_message(message: Message) -> tuple[list[object], bytes]:
    """A message as a small list, and the bytes of its entries or of its piece of a snapshot.

    `join_message` makes a message of the two again.
    """
    fields = encode_message(message)
    if isinstance(message, AppendRequest):
        fields[5] = [(entry.epoch, len(entry.payload)) for entry in message.entries]
        return fields, b"".join([entry.payload for entry in message.entries])
    if isinstance(message, SnapshotRequest):
        fields[6] = b""
        return fields, message.piece
    return fields, b""


def join_message(fields: object, attached: Buffer = b"") -> Message:
    """The message that a peer split.

    Args:
        fields: What msgpack made of the list; lists may be tuples.
        attached: The bytes beside it.

    Raises:
        MalformedQuorumMessage: not a message; the text says what is wrong.
    """
    if not isinstance(fields, list | tuple):
        raise MalformedQuorumMessage("a quorum message is a list")
    joined = list(cast("Sequence[object]", fields))
    if joined[:1] == [_NUMBERS[AppendRequest]] and len(joined) > 5:
        joined[5] = _cut_entries(joined[5], memoryview(attached))
    elif joined[:1] == [_NUMBERS[SnapshotRequest]] and len(joined) > 6:
        joined[6] = bytes(attached)
    return decode_message(joined)


def _cut_entries(heads: object, payloads: memoryview) -> list[tuple[object, bytes]]:
    """Entries from their (epoch, size) and the payloads one after the other."""
    entries: list[tuple[object, bytes]] = []
    position = 0
    if not isinstance(heads, list | tuple):
        raise MalformedQuorumMessage(f"{heads!r:.40} are no heads of entries")
    for head in cast("Sequence[object]", heads):
        if not isinstance(head, list | tuple) or len(cast("Sequence[object]", head)) < 2:
            raise MalformedQuorumMessage(f"{head!r:.40} is no head of an entry")
        epoch, size_bytes = cast("Sequence[object]", head)[:2]
        if type(size_bytes) is not int or not 0 <= size_bytes <= len(payloads) - position:
            raise MalformedQuorumMessage(
                f"an entry of {size_bytes!r:.40} bytes, and {len(payloads) - position} are there"
            )
        entries.append((epoch, bytes(payloads[position : position + size_bytes])))
        position += size_bytes
    return entries


def decode_message(value: object) -> Message:
    """The message that a peer encoded.

    Args:
        value: What msgpack made of it; lists may be tuples.

    Raises:
        MalformedQuorumMessage: not a message; the text says what is wrong.
    """
    if not isinstance(value, list | tuple) or not value:
        raise MalformedQuorumMessage("a quorum message is a list that is not empty")
    number, *fields = cast("Sequence[object]", value)
    if type(number) is not int or not 0 <= number < len(_KINDS):
        raise MalformedQuorumMessage(f"{number!r:.40} is no kind of quorum message")
    kind = _KINDS[number]
    names = kind._fields
    if len(fields) < len(names):
        raise MalformedQuorumMessage(
            f"a {kind.__name__} has {len(names)} fields, this one has {len(fields)}"
        )
    decoded = [_decode_field(kind, name, field) for name, field in zip(names, fields, strict=False)]
    return kind._make(decoded)


def _decode_field(kind: type[Message], name: str, field: object) -> object:
    if name == "entries":
        if isinstance(field, list | tuple):
            return tuple(map(_decode_entry, cast("Sequence[object]", field)))
    elif name == "piece":
        if isinstance(field, bytes):
            return field
    elif name.startswith("is_"):
        if isinstance(field, bool):
            return field
    elif type(field) is int and 0 <= field <= INDEX_MAX:
        return field
    raise MalformedQuorumMessage(f"{field!r:.40} is no {name} of a {kind.__name__}")


def _decode_entry(value: object) -> Entry:
    if isinstance(value, list | tuple):
        entry = cast("Sequence[object]", value)
        if len(entry) >= 2:
            epoch, payload = entry[:2]
            if type(epoch) is int and 0 <= epoch <= INDEX_MAX and isinstance(payload, bytes):
                return Entry(epoch, payload)
    raise MalformedQuorumMessage(f"{value!r:.40} is no entry of the quorum's log")
