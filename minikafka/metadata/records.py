"""The records of the metadata log: everything a cluster knows, declared as it is stored.

A record is stored as a msgpack array, ``[type number, field, field, ...]``; one decision of the
controller, the array of its encoded records, is one entry of the quorum's log. Several versions of
minikafka read and write the same log, during a rolling upgrade for instance, so:

- A record's version is the number of its fields. A new field goes to the end and has a default. An
  older reader ignores the fields that it does not know; a newer one uses the defaults for those
  that are missing. The same goes for the parts of a record (`Listener`, `FeatureRange`, ...).
- The type number is the type's place in `MetadataRecord`. A new type goes to the end, numbers are
  never reused, and a controller must not write the type before every node can read it: a node that
  finds a type that it does not know stops, because it cannot know what it would miss.

``tests/golden/metadata`` keeps the bytes of every version. To add a record: declare it here, and
give it a case in `MetadataImage.replay` and, if it brings new state, in `MetadataImage.records`
(the snapshot); ``tests/metadata/test_every_record.py`` fails when one of them is forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from types import UnionType
from typing import Any, Final, NamedTuple, cast, get_args, get_origin, get_type_hints

import msgpack

NO_LEADER: Final = -1
"""Instead of a broker id."""


class TopicRecord(NamedTuple):
    """A topic exists. ``topic_id`` is 16 bytes and never used again (KIP-516)."""

    name: str
    topic_id: bytes


class PartitionRecord(NamedTuple):
    """Where a partition lives and who leads it; replaces earlier records of the same partition.

    Attributes:
        topic_id: of the partition's topic.
        partition: its number in the topic.
        replicas: broker ids; the first is the preferred leader. During a reassignment, the target
            replicas, and after them those that will be removed.
        in_sync_replicas: those that have every committed record. Never empty. When there is a
            leader, all of them are unfenced and it is one of them.
        leader: a broker id, or `NO_LEADER`.
        leader_epoch: rises with every change of the leader, and when replicas are removed.
        partition_epoch: rises with every change of anything here (KIP-497).
        adding_replicas: members of ``replicas`` that a reassignment adds (KIP-455).
        removing_replicas: members of ``replicas`` that are removed once all added ones are in sync.
        eligible_leader_replicas: not in sync, but with every committed record, because nothing was
            committed since they left: the ISR has been smaller than min.insync.replicas ever since
            (KIP-966). May be fenced.
        last_known_eligible_leaders: the last leader, when no replica that is known to have every
            committed record is left (KIP-966).
        next_leader: the replica that the leader is asked to hand over to, in order and without
            losing a record (see `minikafka.metadata.elections`), or `NO_LEADER`.
    """

    topic_id: bytes
    partition: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_eligible_leaders: tuple[int, ...] = ()
    next_leader: int = NO_LEADER


class RemoveTopicRecord(NamedTuple):
    """A topic is deleted, with all its partitions and settings."""

    topic_id: bytes


class SettingRecord(NamedTuple):
    """A setting of a resource; ``value`` None resets it to its default.

    ``resource_type`` is Kafka's number: 2 topic, 4 broker (an empty name is every broker),
    16 client metrics subscription, 32 group.
    """

    resource_type: int
    resource_name: str
    name: str
    value: str | None


class ProducerIdsRecord(NamedTuple):
    """All producer ids below ``next_producer_id`` have been allocated, in blocks."""

    broker_id: int
    next_producer_id: int


_PLAIN_LISTENER = "PLAINTEXT"


class Listener(NamedTuple):
    """A client listener of a broker, and the address that clients are given there."""

    name: str
    host: str
    port: int


class FeatureRange(NamedTuple):
    """A feature, and the versions of it that a broker supports."""

    name: str
    lowest: int
    highest: int


class BrokerRecord(NamedTuple):
    """A broker registered, or came back as another process (KIP-631).

    Attributes:
        broker_id: its node id.
        incarnation_id: 16 bytes that each process draws when it starts.
        broker_epoch: assigned at registration, rising over the whole cluster; requests of an older
            incarnation are recognised by it.
        host: for clients, with ``port``.
        port: see ``host``.
        rpc_host: for other nodes, with ``rpc_port``.
        rpc_port: see ``rpc_host``.
        rack: broker.rack, or None.
        is_fenced: it must not lead or be in sync, and clients do not see it.
        is_shutting_down: it hands its leaders over and will stop; it gets no new ones.
        listeners: all client listeners; empty if there is only PLAINTEXT, at ``host``.
        features: what it supports.
    """

    broker_id: int
    incarnation_id: bytes
    broker_epoch: int
    host: str
    port: int
    rpc_host: str
    rpc_port: int
    rack: str | None = None
    is_fenced: bool = True
    is_shutting_down: bool = False
    listeners: tuple[Listener, ...] = ()
    features: tuple[FeatureRange, ...] = ()

    def address_on(self, listener: str) -> tuple[str, int] | None:
        """Where clients of a listener find this broker; None if it has no such listener."""
        if not self.listeners:
            return (self.host, self.port) if listener == _PLAIN_LISTENER else None
        for one in self.listeners:
            if one.name == listener:
                return one.host, one.port
        return None

    @property
    def is_active(self) -> bool:
        """Whether it may become a leader or join an ISR."""
        return not self.is_fenced and not self.is_shutting_down


class BrokerChangeRecord(NamedTuple):
    """A registered broker is fenced, unfenced, or about to stop."""

    broker_id: int
    broker_epoch: int
    is_fenced: bool
    is_shutting_down: bool


class UnregisterBrokerRecord(NamedTuple):
    """A broker left the cluster, until it registers again."""

    broker_id: int
    broker_epoch: int


class BrokerEpochRecord(NamedTuple):
    """All broker epochs below ``next_broker_epoch`` have been assigned. Only snapshots hold it."""

    next_broker_epoch: int


class ScramCredentialRecord(NamedTuple):
    """A user has a SCRAM credential (KIP-554); replaces the one of the same mechanism.

    ``mechanism`` is Kafka's number: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512. Nobody can log in with what
    is stored here, but passwords can be guessed by it, so it is never shown.
    """

    user: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return (
            f"ScramCredentialRecord(user={self.user!r}, mechanism={self.mechanism}, "
            f"iterations={self.iterations}, ...)"
        )


class RemoveScramCredentialRecord(NamedTuple):
    """A user's SCRAM credential of one mechanism is deleted."""

    user: str
    mechanism: int


class QuotaEntityPart(NamedTuple):
    """A user, a client id or an address; without a name the default of those."""

    type: str
    name: str | None


class ClientQuotaRecord(NamedTuple):
    """A quota of an entity (KIP-546); ``value`` None removes it. Parts are sorted by type."""

    entity: tuple[QuotaEntityPart, ...]
    key: str
    value: float | None


class AclRecord(NamedTuple):
    """An access rule is added; see `minikafka.security.acl.Acl`.

    Attributes:
        acl_id: 16 bytes, by which it is removed.
        resource_type: Kafka's number, as are ``pattern_type``, ``operation`` and ``permission``.
    """

    acl_id: bytes
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class RemoveAclRecord(NamedTuple):
    """An access rule is removed."""

    acl_id: bytes


MetadataRecord = (
    TopicRecord
    | PartitionRecord
    | RemoveTopicRecord
    | SettingRecord
    | ProducerIdsRecord
    | BrokerRecord
    | BrokerChangeRecord
    | UnregisterBrokerRecord
    | BrokerEpochRecord
    | ScramCredentialRecord
    | RemoveScramCredentialRecord
    | AclRecord
    | RemoveAclRecord
    | ClientQuotaRecord
)
"""A type's number is its place here, from 1 on."""

SECRETS: Final[dict[type[MetadataRecord], frozenset[str]]] = {
    ScramCredentialRecord: frozenset({"salt", "stored_key", "server_key"})
}
"""Fields that are never shown."""


def _field_types(hint: Any) -> tuple[type, ...]:
    if isinstance(hint, UnionType):
        return get_args(hint)
    return (get_origin(hint) or hint,)


def _parts(hint: Any) -> Any:
    """X, if the hint is ``tuple[X, ...]`` and X is declared here; else None."""
    part = next(iter(get_args(hint)), None)
    return part if hasattr(part, "_fields") else None


_KINDS: Final[dict[int, type[MetadataRecord]]] = dict(enumerate(get_args(MetadataRecord), 1))
_NUMBERS: Final = {kind: number for number, kind in _KINDS.items()}
_HINTS: Final = {kind: get_type_hints(kind) for kind in _NUMBERS}
# The types that the fields of a record may have together: all of them are checked in one look-up.
_SIGNATURES: Final = {
    kind: frozenset(product(*map(_field_types, hints.values()))) for kind, hints in _HINTS.items()
}
_PARTS: Final = {
    kind: [(place, part) for place, hint in enumerate(hints.values()) if (part := _parts(hint))]
    for kind, hints in _HINTS.items()
}


class MetadataLogError(Exception):
    """The metadata log cannot be read."""


class UnknownMetadataRecordError(MetadataLogError):
    """The metadata log holds a record that this version of minikafka does not know."""


def encode_record(record: MetadataRecord) -> bytes:
    """Write a metadata record as msgpack."""
    packed: bytes = msgpack.packb((_NUMBERS[type(record)], *record))
    return packed


def decode_record(payload: bytes) -> MetadataRecord:
    """Read a metadata record, of this version, an older or a newer one.

    Raises:
        UnknownMetadataRecordError: not a record, or one of a type from a newer version.
    """
    try:
        number, *fields = msgpack.unpackb(payload, use_list=False)
        kind = _KINDS[number]
        for place, part in _PARTS[kind]:
            size = len(part._fields)
            fields[place : place + 1] = [
                tuple(part(*one[:size]) for one in parts) for parts in fields[place : place + 1]
            ]
        record = kind(*fields[: len(kind._fields)])
        if tuple(map(type, record)) not in _SIGNATURES[kind]:
            raise TypeError("a field has another type")
    except (ValueError, KeyError, TypeError) as error:
        raise UnknownMetadataRecordError(
            f"metadata record {payload[:40]!r} cannot be read ({error!r}); "
            "was this data directory written by a newer minikafka?"
        ) from error
    return record


def encode_decision(records: Sequence[MetadataRecord]) -> bytes:
    """Write the records of one decision: an entry of the quorum's log."""
    packed: bytes = msgpack.packb([encode_record(record) for record in records])
    return packed


def decode_decision(payload: bytes) -> list[MetadataRecord]:
    """Read the records of a decision.

    Raises:
        MetadataLogError: not a decision, or a record is from a newer minikafka.
    """
    try:
        packed = msgpack.unpackb(payload, use_list=False)
    except ValueError as error:
        raise _unreadable(repr(error)) from error
    if not isinstance(packed, tuple):
        raise _unreadable(f"{packed!r:.40}")
    records = cast("tuple[object, ...]", packed)
    if not all(isinstance(one, bytes) for one in records):
        raise _unreadable(f"{packed!r:.40}")
    return [decode_record(one) for one in cast("tuple[bytes, ...]", records)]


def _unreadable(what: str) -> MetadataLogError:
    return MetadataLogError(
        f"an entry of the metadata log cannot be read ({what}); was this data directory written "
        "by a newer minikafka?"
    )
