"""Groups and client metrics subscriptions as config resources, over the wire."""

from __future__ import annotations

from pathlib import Path

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import list_config_resources
from tests.broker.handlers.config_requests import (
    CLIENT_METRICS,
    DEFAULT,
    DELETE,
    FROM_FILE,
    GROUP,
    SET,
    change,
    entries,
    replace,
)
from tests.kit.in_process import running_broker
from tests.kit.wire import WireClient

SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
FROM_SUBSCRIPTION, FROM_GROUP = 7, 8


async def listed(client: WireClient, resource_type: int) -> list[str]:
    request = list_config_resources.Request(resource_types=[resource_type])
    response = await client.ask(request, 1, list_config_resources.Response)
    return [one.resource_name for one in response.config_resources]


async def test_a_groups_settings_come_before_the_brokers_and_survive_a_restart(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path, f"group.{INTERVAL}=6000") as under_test:
        client = under_test.connect()
        assert await change(client, GROUP, "g", (SESSION, SET, "50000")) == ErrorCode.NONE
    async with running_broker(tmp_path, f"group.{INTERVAL}=6000") as under_test:
        client = under_test.connect()
        shown = await entries(client, GROUP, "g")
        assert (shown[SESSION].value, shown[SESSION].config_source) == ("50000", FROM_GROUP)
        assert [(one.name, one.value) for one in shown[SESSION].synonyms] == [
            (SESSION, "50000"),
            (f"group.{SESSION}", "45000"),
        ]
        assert (shown[INTERVAL].value, shown[INTERVAL].config_source) == ("6000", FROM_FILE)
        reset = shown["share.auto.offset.reset"]
        assert (reset.value, reset.config_source, reset.read_only) == ("latest", DEFAULT, False)
        assert under_test.broker.settings.group_integer("g", SESSION) == 50_000
        assert under_test.broker.settings.group_values("other")[SESSION] == 45_000
        assert await listed(client, GROUP) == ["g"]
        assert await change(client, GROUP, "g", (SESSION, DELETE, None)) == ErrorCode.NONE
        assert await listed(client, GROUP) == []
        assert under_test.broker.settings.group_integer("g", SESSION) == 45_000


async def test_a_client_metrics_subscription_is_described_and_replaced(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        wanted: dict[str, str | None] = {"metrics": "a.,b.", "match": "client_id=x.*"}
        assert await replace(client, CLIENT_METRICS, "m", wanted) == ErrorCode.NONE
        shown = await entries(client, CLIENT_METRICS, "m")
        assert {name: (one.value, one.config_source) for name, one in shown.items()} == {
            "interval.ms": ("300000", DEFAULT),
            "match": ("client_id=x.*", FROM_SUBSCRIPTION),
            "metrics": ("a.,b.", FROM_SUBSCRIPTION),
        }
        assert await listed(client, CLIENT_METRICS) == ["m"]
        assert await replace(client, CLIENT_METRICS, "m", {"interval.ms": "100"}) == 0
        shown = await entries(client, CLIENT_METRICS, "m")
        assert (shown["interval.ms"].value, shown["metrics"].value) == ("100", "")
