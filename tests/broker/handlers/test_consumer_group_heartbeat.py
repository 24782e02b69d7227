"""ConsumerGroupHeartbeat and ConsumerGroupDescribe over the wire, where the handlers decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    find_coordinator,
)
from tests.kit.in_process import running_broker
from tests.kit.wire import WireClient, set_for_group

GROUP = "readers"


async def find(client: WireClient) -> None:
    request = find_coordinator.Request(key_type=0, coordinator_keys=[GROUP])
    await client.ask(request, 6, find_coordinator.Response)


async def join(client: WireClient, **options: Any) -> consumer_group_heartbeat.Response:
    request = consumer_group_heartbeat.Request(
        group_id=GROUP,
        member_id="A",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        topic_partitions=[],
        **options,
    )
    return await client.ask(request, 1, consumer_group_heartbeat.Response)


async def test_an_expression_is_matched_with_the_topics_that_there_are(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await find(client)
        await client.create_topic("flights", 2)
        joined = await join(client, subscribed_topic_regex="fl.*")
        assert joined.error_code == ErrorCode.NONE
        assert joined.assignment is not None
        assert [one.partitions for one in joined.assignment.topic_partitions] == [[0, 1]]
        await client.create_topic("fleet", 1)
        request = consumer_group_describe.Request(
            group_ids=[GROUP, "nobody", GROUP], include_authorized_operations=True
        )
        described = await client.ask(request, 1, consumer_group_describe.Response)
        assert [(one.group_id, one.error_code) for one in described.groups] == [
            (GROUP, ErrorCode.NONE),
            ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        group = described.groups[0]
        assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Assigning", 2, 1)
        assert group.authorized_operations > 0
        (member,) = group.members
        names = [(one.topic_name, one.partitions) for one in member.assignment.topic_partitions]
        assert names == [("flights", [0, 1])]


@pytest.mark.parametrize("pattern", [r"(a)\1", "a(?=b)", "a" * 5000])
async def test_an_expression_that_is_not_re2s_is_refused(tmp_path: Path, pattern: str) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await find(client)
        refused = await join(client, subscribed_topic_regex=pattern)
        assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        assert refused.error_message


async def test_consumer_groups_can_be_switched_off(tmp_path: Path) -> None:
    setting = "group.coordinator.rebalance.protocols=classic"
    async with running_broker(tmp_path, setting) as under_test:
        client = under_test.connect()
        await find(client)
        refused = await join(client, subscribed_topic_names=["flights"])
        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_the_feature_is_finalized(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        request = api_versions.Request(client_software_name="test", client_software_version="1")
        answer = await under_test.connect().ask(request, 4, api_versions.Response)
        levels = {one.name: one.max_version_level for one in answer.finalized_features}
        assert levels["group.version"] == 1


async def test_a_group_has_an_interval_of_its_own(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await find(client)
        await set_for_group(client, GROUP, "consumer.heartbeat.interval.ms", "7000")
        joined = await join(client, subscribed_topic_names=["flights"])
        assert joined.heartbeat_interval_ms == 7000
