"""A member of a streams group in Kafka's protocol, for tests without Kafka Streams."""

from __future__ import annotations

from minikafka.protocol.messages import (
    find_coordinator,
    incremental_alter_configs,
    streams_group_heartbeat,
)
from tests.kit.wire import Wire

MEMBER = "m"


def join_streams_group(wire: Wire, group: str, topic: str) -> None:
    """Join as an application without state that reads the topic, and wait for its tasks."""
    find = find_coordinator.Request(key_type=0, coordinator_keys=[group])
    wire.ask(find, 6, find_coordinator.Response)
    set_it = incremental_alter_configs.AlterableConfig(
        name="streams.initial.rebalance.delay.ms", config_operation=0, value="0"
    )
    resource = incremental_alter_configs.Resource(
        resource_type=32, resource_name=group, configs=[set_it]
    )
    request = incremental_alter_configs.Request(resources=[resource], validate_only=False)
    wire.ask(request, 1, incremental_alter_configs.Response)
    subtopology = streams_group_heartbeat.Subtopology(subtopology_id="0", source_topics=[topic])
    join = streams_group_heartbeat.Request(
        group_id=group,
        member_id=MEMBER,
        member_epoch=0,
        rebalance_timeout_ms=1000,
        topology=streams_group_heartbeat.Topology(epoch=0, subtopologies=[subtopology]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
    )
    joined = wire.ask(join, 1, streams_group_heartbeat.Response)
    assert joined.active_tasks


def leave_streams_group(wire: Wire, group: str) -> None:
    leave = streams_group_heartbeat.Request(group_id=group, member_id=MEMBER, member_epoch=-1)
    wire.ask(leave, 1, streams_group_heartbeat.Response)
