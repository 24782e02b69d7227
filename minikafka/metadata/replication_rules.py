"""The two topic settings that decide who may lead: min.insync.replicas and unclean election.

The controller must use the same values as a topic's leader: the leader commits only while the ISR
has min.insync.replicas members, and a replica that leaves a smaller ISR still has every committed
record (KIP-966). So both take the value from the metadata log: the topic's own, or the dynamic
default of all brokers. Only if neither is set does the node's own file count, which therefore must
be the same on every node. (A dynamic value of one broker is ignored, as in Kafka with KIP-966.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .image import RESOURCE_BROKER, RESOURCE_TOPIC

__all__ = ["MIN_INSYNC", "UNCLEAN_ELECTION", "ReplicationRules", "Settings", "rules_of_topic"]

MIN_INSYNC = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"


class ReplicationRules(NamedTuple):
    """The values for a topic, or (as an argument) the defaults of the node's file.

    Attributes:
        min_insync_replicas: with fewer members in the ISR nothing is committed. A partition with
            fewer replicas needs all of them.
        is_unclean_election_enabled: whether a replica that may miss committed records can lead.
    """

    min_insync_replicas: int = 1
    is_unclean_election_enabled: bool = False


Settings = Mapping[tuple[int, str], Mapping[str, str]]
"""Text values by (resource type, resource name), as `MetadataImage.settings`."""


def rules_of_topic(settings: Settings, name: str, defaults: ReplicationRules) -> ReplicationRules:
    """The values for a topic: its own settings over the cluster's over the node's file.

    Args:
        settings: `MetadataImage.settings`.
        name: of the topic.
        defaults: from the node's file.
    """
    of_topic = settings.get((RESOURCE_TOPIC, name), {})
    of_cluster = settings.get((RESOURCE_BROKER, ""), {})
    minimum = of_topic.get(MIN_INSYNC) or of_cluster.get(MIN_INSYNC)
    is_unclean = of_topic.get(UNCLEAN_ELECTION) or of_cluster.get(UNCLEAN_ELECTION)
    return ReplicationRules(
        int(minimum) if minimum else defaults.min_insync_replicas,
        is_unclean.strip().lower() == "true"
        if is_unclean
        else defaults.is_unclean_election_enabled,
    )
