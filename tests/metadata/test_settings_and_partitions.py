"""What min.insync.replicas and unclean election do to partitions when they change."""

import pytest

from minikafka.metadata.image import RESOURCE_BROKER, RESOURCE_TOPIC
from minikafka.metadata.records import NO_LEADER, MetadataRecord, SettingRecord, TopicRecord
from minikafka.metadata.replication_rules import (
    MIN_INSYNC,
    UNCLEAN_ELECTION,
    ReplicationRules,
    rules_of_topic,
)
from minikafka.metadata.setting_changes import settle_partitions
from tests.metadata.cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    """``t-0`` led by 1 with 2 eligible, because two in sync are needed; ``u-0`` without leader."""
    cluster = Cluster(3, min_insync_replicas=2)
    cluster.topic("t", [1, 2])
    cluster.topic("u", [3, 2], min_insync_replicas="1")
    cluster.alter(1)
    cluster.alter(3, topic="u")
    cluster.fence(3)
    assert cluster.at("t").eligible_leader_replicas == (2,)
    assert cluster.at("u").leader == NO_LEADER
    return cluster


def test_a_leader_that_may_commit_alone_has_no_eligible_successors(cluster: Cluster) -> None:
    cluster.set(MIN_INSYNC, "1")
    assert cluster.at().eligible_leader_replicas == ()
    cluster.set(MIN_INSYNC, None)
    assert cluster.at().eligible_leader_replicas == ()


def test_a_partition_that_still_cannot_commit_keeps_its_eligible_leaders(cluster: Cluster) -> None:
    cluster.set(MIN_INSYNC, "2")
    cluster.set(MIN_INSYNC, "3")
    assert cluster.at().eligible_leader_replicas == (2,)


def test_allowing_unclean_election_elects(cluster: Cluster) -> None:
    cluster.set(UNCLEAN_ELECTION, "false", topic="u")
    assert cluster.at("u").leader == NO_LEADER
    cluster.set(UNCLEAN_ELECTION, " TRUE ", topic="u")
    assert cluster.at("u").leader == 2


@pytest.mark.parametrize("name", ["", "1"])
def test_a_default_of_all_brokers_counts_that_of_one_does_not(cluster: Cluster, name: str) -> None:
    records = [
        SettingRecord(RESOURCE_BROKER, name, MIN_INSYNC, "1"),
        SettingRecord(RESOURCE_BROKER, name, UNCLEAN_ELECTION, "true"),
    ]
    effects = settle_partitions(cluster.image, records, cluster.defaults)
    assert len(effects) == (2 if name == "" else 0)


def test_settings_of_one_decision_are_seen_together(cluster: Cluster) -> None:
    records = [
        SettingRecord(RESOURCE_BROKER, "", MIN_INSYNC, "1"),
        SettingRecord(RESOURCE_TOPIC, "t", MIN_INSYNC, "2"),
    ]
    assert settle_partitions(cluster.image, records, cluster.defaults) == []


def test_other_records_have_no_effect(cluster: Cluster) -> None:
    records: list[MetadataRecord] = [
        TopicRecord("v", b"v" * 16),
        SettingRecord(RESOURCE_TOPIC, "t", "retention.ms", "1"),
    ]
    assert settle_partitions(cluster.image, records, ReplicationRules()) == []


def test_the_topics_value_wins_over_the_clusters_and_that_over_the_files() -> None:
    defaults = ReplicationRules(3, True)
    assert rules_of_topic({}, "t", defaults) == defaults
    of_cluster = {(RESOURCE_BROKER, ""): {MIN_INSYNC: "2", UNCLEAN_ELECTION: "false"}}
    assert rules_of_topic(of_cluster, "t", defaults) == (2, False)
    of_topic = {**of_cluster, (RESOURCE_TOPIC, "t"): {MIN_INSYNC: "4", UNCLEAN_ELECTION: "true"}}
    assert rules_of_topic(of_topic, "t", defaults) == (4, True)
    assert rules_of_topic(of_topic, "u", defaults) == (2, False)
