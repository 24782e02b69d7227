"""AlterClientQuotas, where it differs from Kafka's."""

from __future__ import annotations

from pathlib import Path

from minikafka.broker.handlers.config_resources import RESOURCES_PER_REQUEST_MAX
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import alter_client_quotas as api
from tests.kit.in_process import running_broker


async def test_a_request_changes_a_limited_number_of_entities(tmp_path: Path) -> None:
    change = api.OpData(key="producer_byte_rate", value=1000.0, remove=False)
    entries = [
        api.EntryDataRequest(
            entity=[api.EntityDataRequest(entity_type="user", entity_name=f"u{number}")],
            ops=[change],
        )
        for number in range(RESOURCES_PER_REQUEST_MAX + 1)
    ]
    async with running_broker(tmp_path) as under_test:
        request = api.Request(entries=entries, validate_only=True)
        answer = await under_test.connect().ask(request, 1, api.Response)
    codes = [entry.error_code for entry in answer.entries]
    assert codes == [ErrorCode.NONE] * (len(entries) - 1) + [ErrorCode.POLICY_VIOLATION]
