"""The two topic settings that decide who may lead: min.insync.replicas and unclean election.

A controller must know what a topic's leader believes: the leader commits only while the ISR has
min.insync.replicas members, and whoever leaves a smaller ISR still has everything that is committed
(KIP-966). So both take the value from the metadata log: the topic's own, or the dynamic default of
all brokers. Only where neither is set the node's own file counts, which therefore has to say the
same on every node. (A dynamic value of one single broker does not count, as in Kafka with KIP-966.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .image import RESOURCE_BROKER, RESOURCE_TOPIC

__all__ = ["MIN_INSYNC", "UNCLEAN_ELECTION", "ReplicationRules", "Settings", "rules_of_topic"]

MIN_INSYNC = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"


class ReplicationRules(NamedTuple):
    """What holds for a topic, or (as an argument) where nothing is set.

    Attributes:
        min_insync_replicas: with fewer members in the ISR nothing is committed. A partition with
            fewer replicas than that needs all of them.
        is_unclean_election_enabled: whether a replica that may miss committed records can lead.
    """

    min_insync_replicas: int = 1
    is_unclean_election_enabled: bool = False


Settings = Mapping[tuple[int, str], Mapping[str, str]]
"""Text values by (resource type, resource name), as `MetadataImage.settings`."""


def rules_of_topic(settings: Settings, name: str, defaults: ReplicationRules) -> ReplicationRules:
    """What holds for a topic: its own settings over the cluster's over the node's file.

    Args:
        settings: `MetadataImage.settings`.
        name: of the topic.
        defaults: min.insync.replicas and unclean.leader.election.enable of the node's file.
    """
    of_topic = settings.get((RESOURCE_TOPIC, name), {})
    of_cluster = settings.get((RESOURCE_BROKER, ""), {})
    minimum = of_topic.get(MIN_INSYNC) or of_cluster.get(MIN_INSYNC)
    is_unclean = of_topic.get(UNCLEAN_ELECTION) or of_cluster.get(UNCLEAN_ELECTION)
    return ReplicationRules(
        int(minimum) if minimum else defaults.min_insync_replicas,
        is_unclean.strip().lower() == "true" if is_unclean else defaults[1],
    )
