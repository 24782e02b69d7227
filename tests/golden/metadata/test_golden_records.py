"""Metadata records as earlier versions wrote them, byte for byte.

A node finds the metadata log of the version before it, and during a rolling upgrade nodes of both
read the same log. Later versions must still read everything here: files are only added, never
changed, one for each version that writes something new.
"""

import tomllib
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from minikafka.metadata.image import MetadataImage
from minikafka.metadata.records import (
    NO_LEADER,
    AclRecord,
    BrokerChangeRecord,
    BrokerEpochRecord,
    BrokerRecord,
    ClientQuotaRecord,
    FeatureRange,
    Listener,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntityPart,
    RemoveAclRecord,
    RemoveScramCredentialRecord,
    RemoveTopicRecord,
    ScramCredentialRecord,
    SettingRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    decode_decision,
    decode_record,
    encode_decision,
    encode_record,
)

VERSIONS: Final = sorted(path.stem for path in Path(__file__).parent.glob("*.toml"))
LATEST: Final = "0.1.0"
TOPIC_ID: Final = bytes(range(16))
ACL_ID: Final = bytes(range(32, 48))
INCARNATION: Final = bytes(range(16, 32))

RECORDS: Final[dict[str, MetadataRecord]] = {
    "topic": TopicRecord(name="orders", topic_id=TOPIC_ID),
    "partition": PartitionRecord(
        topic_id=TOPIC_ID,
        partition=0,
        replicas=(1, 2, 3),
        in_sync_replicas=(1, 2),
        leader=1,
        leader_epoch=4,
        partition_epoch=9,
        adding_replicas=(3,),
        removing_replicas=(2,),
        eligible_leader_replicas=(3,),
        last_known_eligible_leaders=(),
        next_leader=2,
    ),
    "partition_without_leader": PartitionRecord(
        topic_id=TOPIC_ID,
        partition=1,
        replicas=(1, 2),
        in_sync_replicas=(1,),
        leader=NO_LEADER,
        leader_epoch=5,
        partition_epoch=10,
        last_known_eligible_leaders=(2,),
    ),
    "remove_topic": RemoveTopicRecord(topic_id=TOPIC_ID),
    "setting": SettingRecord(
        resource_type=2, resource_name="orders", name="retention.ms", value="60000"
    ),
    "setting_taken_back": SettingRecord(
        resource_type=4, resource_name="", name="log.retention.ms", value=None
    ),
    "producer_ids": ProducerIdsRecord(broker_id=1, next_producer_id=2000),
    "register_broker": BrokerRecord(
        broker_id=1,
        incarnation_id=INCARNATION,
        broker_epoch=7,
        host="kafka-1",
        port=9092,
        rpc_host="10.0.0.1",
        rpc_port=19092,
        rack="rack-a",
        is_fenced=False,
        is_shutting_down=True,
        listeners=(Listener(name="SSL", host="kafka-1", port=9093),),
        features=(FeatureRange(name="transaction.version", lowest=0, highest=2),),
    ),
    "register_broker_with_defaults": BrokerRecord(
        broker_id=2,
        incarnation_id=INCARNATION,
        broker_epoch=8,
        host="kafka-2",
        port=9092,
        rpc_host="10.0.0.2",
        rpc_port=19092,
        rack=None,
        is_fenced=True,
        is_shutting_down=False,
        listeners=(),
        features=(),
    ),
    "broker_change": BrokerChangeRecord(
        broker_id=1, broker_epoch=7, is_fenced=True, is_shutting_down=False
    ),
    "unregister_broker": UnregisterBrokerRecord(broker_id=1, broker_epoch=7),
    "broker_epoch": BrokerEpochRecord(next_broker_epoch=9),
    "scram_credential": ScramCredentialRecord(
        user="alice",
        mechanism=1,
        salt=b"salt",
        stored_key=bytes(32),
        server_key=bytes(range(32)),
        iterations=4096,
    ),
    "remove_scram_credential": RemoveScramCredentialRecord(user="alice", mechanism=2),
    "client_quota": ClientQuotaRecord(
        entity=(QuotaEntityPart("client-id", None), QuotaEntityPart("user", "alice")),
        key="producer_byte_rate",
        value=1e6,
    ),
    "client_quota_removed": ClientQuotaRecord(
        entity=(QuotaEntityPart("ip", "10.0.0.1"),), key="connection_creation_rate", value=None
    ),
    "acl": AclRecord(
        acl_id=ACL_ID,
        resource_type=2,
        resource_name="orders",
        pattern_type=3,
        principal="User:alice",
        host="*",
        operation=3,
        permission=3,
    ),
    "remove_acl": RemoveAclRecord(acl_id=ACL_ID),
}
# Written before there were clusters, by no version that was released: read, but never written.
OLD_RECORDS: Final[dict[str, MetadataRecord]] = {
    "partition_of_one_node": PartitionRecord(
        topic_id=TOPIC_ID,
        partition=0,
        replicas=(1,),
        in_sync_replicas=(1,),
        leader=1,
        leader_epoch=4,
        partition_epoch=9,
        adding_replicas=(),
        removing_replicas=(),
        eligible_leader_replicas=(),
        last_known_eligible_leaders=(),
        next_leader=NO_LEADER,
    ),
}
SNAPSHOT: Final = [
    BrokerEpochRecord(next_broker_epoch=9),
    RECORDS["register_broker"],
    RECORDS["register_broker_with_defaults"],
    RECORDS["topic"],
    RECORDS["partition"],
    RECORDS["partition_without_leader"],
    RECORDS["setting"],
    SettingRecord(resource_type=4, resource_name="", name="log.retention.ms", value="1"),
    ProducerIdsRecord(broker_id=-1, next_producer_id=2000),
]
ENTRIES: Final[dict[str, list[MetadataRecord]]] = {
    "nothing": [],
    "create_topic": [
        RECORDS["topic"],
        PartitionRecord(TOPIC_ID, 0, (1,), (1,), 1, 0, 0),
        RECORDS["setting"],
    ],
    "snapshot": SNAPSHOT,
}


def golden(version: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(f"{version}.toml").read_text())


def test_the_latest_bytes_hold_every_type_of_record() -> None:
    assert VERSIONS[-1] == LATEST
    assert {type(one) for one in RECORDS.values()} == set(get_args(MetadataRecord))
    assert golden(LATEST)["records"].keys() == {*RECORDS, *OLD_RECORDS}


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_read_as_they_were_meant(version: str) -> None:
    for name, text in golden(version)["records"].items():
        record = decode_record(bytes.fromhex(text))
        assert record == {**RECORDS, **OLD_RECORDS}[name], name
        assert type(record) is type({**RECORDS, **OLD_RECORDS}[name])


@pytest.mark.parametrize("version", VERSIONS)
def test_entries_are_read_as_they_were_meant(version: str) -> None:
    for name, text in golden(version)["entries"].items():
        assert decode_decision(bytes.fromhex(text)) == ENTRIES[name], name


def test_everything_is_written_as_the_latest_bytes() -> None:
    for name, record in RECORDS.items():
        assert encode_record(record).hex() == golden(LATEST)["records"][name], name
    for name, records in ENTRIES.items():
        assert encode_decision(records).hex() == golden(LATEST)["entries"][name], name


def test_an_image_of_the_snapshot_makes_the_same_snapshot() -> None:
    image = MetadataImage()
    for record in SNAPSHOT:
        image.replay(record)
    assert list(image.records()) == SNAPSHOT
