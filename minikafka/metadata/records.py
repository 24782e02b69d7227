"""The records of the metadata log: everything a cluster knows, as small msgpack arrays.

A record is encoded as ``[type number, field, field, ...]``. Fields are only ever added at the
end, with a default here, so that an older log stays readable. Numbers are never reused.
"""

from __future__ import annotations

from typing import NamedTuple

import msgpack


class TopicRecord(NamedTuple):
    """A topic exists. ``topic_id`` is 16 bytes and never used again (KIP-516)."""

    name: str
    topic_id: bytes


class PartitionRecord(NamedTuple):
    """The state of one partition; a later record for the same partition replaces it.

    The fields are those of `minikafka.metadata.image.PartitionImage`, which says what they mean.
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
    next_leader: int = -1


class RemoveTopicRecord(NamedTuple):
    """The topic and all its partitions are gone, and its settings with it."""

    topic_id: bytes


class SettingRecord(NamedTuple):
    """A setting of a resource; ``value`` None takes it back to its default.

    ``resource_type`` is Kafka's number: 2 topic, 4 broker (an empty name is every broker).
    """

    resource_type: int
    resource_name: str
    name: str
    value: str | None


class ProducerIdsRecord(NamedTuple):
    """Producer ids below ``next_producer_id`` have been handed out in blocks."""

    broker_id: int
    next_producer_id: int


class RegisterBrokerRecord(NamedTuple):
    """A broker joined the cluster, or came back as another process (KIP-631).

    The fields are those of `minikafka.metadata.image.BrokerImage`, which says what they mean.
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
    listeners: tuple[tuple[str, str, int], ...] = ()
    features: tuple[tuple[str, int, int], ...] = ()


class BrokerChangeRecord(NamedTuple):
    """A registered broker is fenced, unfenced, or about to stop."""

    broker_id: int
    broker_epoch: int
    is_fenced: bool
    is_shutting_down: bool


class UnregisterBrokerRecord(NamedTuple):
    """A broker left the cluster for good, or until it registers again."""

    broker_id: int
    broker_epoch: int


class BrokerEpochRecord(NamedTuple):
    """Broker epochs below ``next_broker_epoch`` have been given out. Only snapshots hold it."""

    next_broker_epoch: int


MetadataRecord = (
    TopicRecord
    | PartitionRecord
    | RemoveTopicRecord
    | SettingRecord
    | ProducerIdsRecord
    | RegisterBrokerRecord
    | BrokerChangeRecord
    | UnregisterBrokerRecord
    | BrokerEpochRecord
)

_TYPES: dict[int, type[MetadataRecord]] = {
    1: TopicRecord,
    2: PartitionRecord,
    3: RemoveTopicRecord,
    4: SettingRecord,
    5: ProducerIdsRecord,
    6: RegisterBrokerRecord,
    7: BrokerChangeRecord,
    8: UnregisterBrokerRecord,
    9: BrokerEpochRecord,
}
_NUMBERS: dict[type[MetadataRecord], int] = {kind: number for number, kind in _TYPES.items()}


class MetadataLogError(Exception):
    """The metadata log cannot be read."""


class UnknownMetadataRecordError(MetadataLogError):
    """The metadata log holds a record that this version of minikafka does not know."""


def encode_record(record: MetadataRecord) -> bytes:
    """Write a metadata record as msgpack."""
    packed: bytes = msgpack.packb((_NUMBERS[type(record)], *record))
    return packed


def decode_record(payload: bytes) -> MetadataRecord:
    """Read a metadata record.

    Raises:
        UnknownMetadataRecordError: the bytes are no record, or of a type from a newer version.
    """
    try:
        number, *fields = msgpack.unpackb(payload, use_list=False)
        return _TYPES[number](*fields)
    except (ValueError, KeyError, TypeError) as error:
        raise UnknownMetadataRecordError(
            f"metadata record {payload[:40]!r} cannot be read ({error!r}); "
            "was this data directory written by a newer minikafka?"
        ) from error
