"""The requests of streams groups over the wire, where the handlers decide (KIP-1071)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from minikafka.broker.broker import Broker
from minikafka.broker.replicas.partition import PartitionError
from minikafka.coordinator.group.streams.internal_topics import Status
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    api_versions,
    describe_configs,
    describe_groups,
    find_coordinator,
    list_groups,
    streams_group_describe,
    streams_group_heartbeat,
)
from minikafka.protocol.messages import (
    streams_group_topology_description_update as topology_description_update,
)
from tests.coordinator.group.streams.streams_shell import (
    TWO_PARTS,
    Topology,
    assigned,
    statuses,
    subtopology,
    tasks,
)
from tests.kit.in_process import running_broker, running_cluster
from tests.kit.wire import WireClient, set_for_group

GROUP = "counting"
AT_ONCE = (
    "group.streams.initial.rebalance.delay.ms=0",
    "group.streams.assignment.interval.ms=0",
)


async def find(client: WireClient) -> None:
    request = find_coordinator.Request(key_type=0, coordinator_keys=[GROUP])
    await client.ask(request, 6, find_coordinator.Response)


async def join(
    client: WireClient, topology: Topology = TWO_PARTS, **options: Any
) -> streams_group_heartbeat.Response:
    request = streams_group_heartbeat.Request(
        group_id=GROUP,
        member_id="A",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        topology=topology,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
        **options,
    )
    return await client.ask(request, 1, streams_group_heartbeat.Response)


async def test_the_heartbeat_that_misses_internal_topics_waits_for_them(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *AT_ONCE) as under_test:
        client = under_test.connect()
        await find(client)
        await client.create_topic("words", 3)
        joined = await join(client)
        assert joined.error_code == ErrorCode.NONE, joined.error_message
        assert statuses(joined) == []
        given = assigned(joined)
        assert given is not None
        assert given.active == tasks(0, 0, 1, 2) | tasks(1, 0, 1, 2)
        topics = under_test.broker.image.topics
        assert {name: len(topics[name].partitions) for name in ("by-word", "counts")} == {
            "by-word": 3,
            "counts": 3,
        }
        policies = {name: await _policy(client, name) for name in ("by-word", "counts")}
        assert policies == {"by-word": "delete", "counts": "compact"}


async def _policy(client: WireClient, topic: str) -> str | None:
    resource = describe_configs.Resource(
        resource_type=2, resource_name=topic, configuration_keys=["cleanup.policy"]
    )
    request = describe_configs.Request(resources=[resource])
    (result,) = (await client.ask(request, 4, describe_configs.Response)).results
    return result.configs[0].value


async def test_why_internal_topics_cannot_be_created_is_said(tmp_path: Path) -> None:
    one = subtopology(0, ["words"], changelogs=["counts"])
    one.state_changelog_topics[0].replication_factor = 3
    async with running_broker(tmp_path, *AT_ONCE) as under_test:
        client = under_test.connect()
        await find(client)
        await client.create_topic("words", 3)
        joined = await join(client, Topology(epoch=0, subtopologies=[one]))
        assert statuses(joined) == [Status.MISSING_INTERNAL_TOPICS]
        assert joined.status is not None
        assert "counts: " in joined.status[0].status_detail.partition(";")[2]
        assert "counts" not in under_test.broker.image.topics


async def test_internal_topics_are_created_by_the_controller(tmp_path: Path) -> None:
    """The coordinator may be another node."""
    async with running_cluster(tmp_path, *AT_ONCE) as cluster:
        node = cluster.nodes[1]
        await find(node.connect())
        await node.connect().create_topic("words", 2)
        await cluster.until(
            lambda: all("words" in one.broker.image.topics for one in cluster.nodes.values())
        )
        await cluster.until(lambda: any(_coordinates(one.broker) for one in cluster.nodes.values()))
        answers = [await join(one.connect()) for one in cluster.nodes.values()]
        accepted = [one for one in answers if one.error_code == ErrorCode.NONE]
        assert len(accepted) == 1
        assert {one.error_code for one in answers if one not in accepted} == {
            ErrorCode.NOT_COORDINATOR
        }
        given = assigned(accepted[0])
        assert given is not None
        assert given.active == tasks(0, 0, 1) | tasks(1, 0, 1)


def _coordinates(broker: Broker) -> bool:
    try:
        broker.groups.shard(GROUP)
    except PartitionError:
        return False
    return True


async def test_streams_groups_are_listed_and_described(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *AT_ONCE) as under_test:
        client = under_test.connect()
        await find(client)
        await client.create_topic("words", 1)
        await join(client, client_tags=[streams_group_heartbeat.KeyValue(key="zone", value="a")])
        request = streams_group_describe.Request(
            group_ids=[GROUP, "nobody", GROUP],
            include_authorized_operations=True,
            include_topology_description=True,
        )
        answer = await client.ask(request, 1, streams_group_describe.Response)
        assert [(one.group_id, one.error_code) for one in answer.groups] == [
            (GROUP, ErrorCode.NONE),
            ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        group = answer.groups[0]
        assert (group.group_state, group.assignor_name) == ("Stable", "sticky")
        assert group.authorized_operations > 0
        assert (group.topology_description, group.topology_description_status) == (None, 0)
        assert group.topology is not None
        assert group.topology.subtopologies is not None
        assert [one.source_topics for one in group.topology.subtopologies] == [["words"], []]
        (member,) = group.members
        assert (member.process_id, member.client_tags[0].value) == ("p", "a")
        assert member.assignment == member.target_assignment
        older = await client.ask(request, 0, streams_group_describe.Response)
        assert older.groups[0].assignor_name is None
        wanted = list_groups.Request(types_filter=["streams"])
        (listed,) = (await client.ask(wanted, 5, list_groups.Response)).groups
        assert (listed.group_id, listed.group_type, listed.group_state) == (
            GROUP,
            "streams",
            "Stable",
        )
        classic = describe_groups.Request(groups=[GROUP])
        (found,) = (await client.ask(classic, 6, describe_groups.Response)).groups
        assert found.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_the_feature_is_finalized(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        request = api_versions.Request(client_software_name="test", client_software_version="1")
        answer = await under_test.connect().ask(request, 4, api_versions.Response)
        levels = {one.name: one.max_version_level for one in answer.finalized_features}
        assert levels["streams.version"] == 1


async def test_a_group_has_settings_of_its_own(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await find(client)
        await client.create_topic("words", 1)
        await set_for_group(client, GROUP, "streams.heartbeat.interval.ms", "7000")
        delayed = await join(client)
        assert delayed.heartbeat_interval_ms == 7000
        assert statuses(delayed) == [Status.ASSIGNMENT_DELAYED]
        settings = under_test.broker.groups.group_settings(GROUP)
        assert settings.streams_num_standby_replicas == 0
        await set_for_group(client, GROUP, "streams.num.standby.replicas", "1")
        settings = under_test.broker.groups.group_settings(GROUP)
        assert settings.streams_num_standby_replicas == 1
        assert settings.streams_session_timeout_ms == 45_000


async def test_no_topology_is_described_without_a_plug_in(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        nothing = topology_description_update.TopologyDescription(
            subtopologies=[], global_stores=[]
        )
        request = topology_description_update.Request(
            group_id=GROUP, member_id="A", topology_epoch=0, topology_description=nothing
        )
        client = under_test.connect()
        answer = await client.ask(request, 0, topology_description_update.Response)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
