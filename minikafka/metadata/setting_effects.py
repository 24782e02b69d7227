"""What a change of settings does to partitions: their eligible leaders, and unclean election.

When min.insync.replicas falls, a leader may commit with an ISR that was too small before. From then
on who is not in that ISR can miss committed records, so the eligible leaders go in the same
decision (KIP-966; Kafka clears them as well). When unclean election is allowed, partitions without
a leader get one.
"""

from __future__ import annotations

from collections.abc import Iterable

from .image import NO_LEADER, MetadataImage
from .partition_change import BrokerStanding, PartitionChanges
from .records import MetadataRecord, PartitionRecord, SettingRecord
from .replication_rules import MIN_INSYNC, UNCLEAN_ELECTION, ReplicationRules

__all__ = ["settle_partitions"]


def settle_partitions(
    image: MetadataImage, records: Iterable[MetadataRecord], defaults: ReplicationRules
) -> list[PartitionRecord]:
    """Say what partitions become when settings change; the records go behind the settings'.

    Args:
        image: as it is.
        records: all records of the decision that changes settings.
        defaults: see `replication_rules.rules_of_topic`.
    """
    changed = [
        record
        for record in records
        if isinstance(record, SettingRecord) and record.name in (MIN_INSYNC, UNCLEAN_ELECTION)
    ]
    if not changed:
        return []
    settings = {key: dict(values) for key, values in image.settings.items()}
    for resource_type, resource_name, name, value in changed:
        of_resource = settings.setdefault((resource_type, resource_name), {})
        of_resource.pop(name, None)
        if value is not None:
            of_resource[name] = value
    changes = PartitionChanges(settings, BrokerStanding.of(image), defaults)
    for topic in image.topics.values():
        for partition in topic.partitions:
            if partition.eligible_leader_replicas or partition.leader == NO_LEADER:
                changes.change(topic, partition)
    return changes.records
