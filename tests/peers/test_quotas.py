"""Client quotas: Apache Kafka and our broker answer alike, and Kafka's own tool works with ours."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import trio

import minikafka_client as mk
from minikafka.protocol.errors import ErrorCode
from minikafka_client.types import DEFAULT_ENTITY, QuotaEntity
from tests.peers.test_java_tools import run_tool

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

CONFIGS = "kafka.admin.ConfigCommand"
NAME = "quotas-of-both"


class Case(NamedTuple):
    entity: QuotaEntity
    key: str
    value: float
    code: ErrorCode


USER, CLIENT = QuotaEntity(user=NAME), QuotaEntity(client_id=NAME)
CASES = [
    Case(USER, "producer_byte_rate", 1e6, ErrorCode.NONE),
    Case(USER, "producer_byte_rate", 1.5, ErrorCode.INVALID_REQUEST),
    Case(USER, "producer_byte_rate", 0.0, ErrorCode.INVALID_REQUEST),
    Case(USER, "producer_byte_rate", -1.0, ErrorCode.INVALID_REQUEST),
    Case(USER, "producer_byte_rate", 1e19, ErrorCode.INVALID_REQUEST),
    Case(USER, "request_percentage", 1.5, ErrorCode.NONE),
    Case(USER, "request_percentage", 1e300, ErrorCode.NONE),
    Case(USER, "connection_creation_rate", 1.0, ErrorCode.INVALID_REQUEST),
    Case(USER, "speed", 1.0, ErrorCode.INVALID_REQUEST),
    Case(CLIENT, "consumer_byte_rate", 1.0, ErrorCode.NONE),
    Case(CLIENT, "controller_mutation_rate", 0.1, ErrorCode.NONE),
    Case(QuotaEntity(NAME, NAME), "consumer_byte_rate", 7.0, ErrorCode.NONE),
    Case(QuotaEntity(NAME, DEFAULT_ENTITY), "consumer_byte_rate", 7.0, ErrorCode.NONE),
    Case(QuotaEntity(DEFAULT_ENTITY, NAME), "consumer_byte_rate", 7.0, ErrorCode.NONE),
    Case(QuotaEntity(ip="10.9.8.7"), "connection_creation_rate", 5.0, ErrorCode.NONE),
    Case(QuotaEntity(ip="10.9.8.7"), "connection_creation_rate", 5.5, ErrorCode.INVALID_REQUEST),
    Case(QuotaEntity(ip="10.9.8.7"), "connection_creation_rate", 3e9, ErrorCode.INVALID_REQUEST),
    Case(QuotaEntity(ip="10.9.8.7"), "producer_byte_rate", 5.0, ErrorCode.INVALID_REQUEST),
    Case(QuotaEntity(ip="not a host"), "connection_creation_rate", 5.0, ErrorCode.INVALID_REQUEST),
    Case(
        QuotaEntity(user=NAME, ip="10.9.8.7"), "request_percentage", 5.0, ErrorCode.INVALID_REQUEST
    ),
    Case(QuotaEntity(), "request_percentage", 5.0, ErrorCode.INVALID_REQUEST),
]


async def until_found(admin: mk.AdminClient, wanted: dict[QuotaEntity, dict[str, float]]) -> None:
    """Apache Kafka's broker applies its controller's decisions a little later."""
    found: dict[QuotaEntity, dict[str, float]] | None = None
    with trio.fail_after(60):
        while found != wanted:
            found = await admin.describe_client_quotas(USER)


async def test_the_same_quotas_are_accepted_and_found(bootstrap: str) -> None:
    expected: dict[QuotaEntity, dict[str, float]] = {}
    async with mk.AdminClient(bootstrap) as admin:
        for case in CASES:
            code: ErrorCode | None = ErrorCode.NONE
            try:
                await admin.alter_client_quotas({case.entity: {case.key: case.value}})
                expected.setdefault(case.entity, {})[case.key] = case.value
            except mk.BrokerError as error:
                code = error.code
            assert code is case.code, case
        of_user = {one: limits for one, limits in expected.items() if one.user == NAME}
        await until_found(admin, of_user)
        assert await admin.describe_client_quotas(USER, strict=True) == {USER: expected[USER]}
        defaults = QuotaEntity(user=DEFAULT_ENTITY)
        assert list(await admin.describe_client_quotas(defaults)) == [
            QuotaEntity(DEFAULT_ENTITY, NAME)
        ]
        with pytest.raises(mk.BrokerError, match="INVALID_REQUEST"):
            await admin.describe_client_quotas(QuotaEntity(user=NAME, ip="10.9.8.7"))
        await admin.alter_client_quotas(
            {one: dict.fromkeys(limits) for one, limits in expected.items()}
        )
        await until_found(admin, {})


def test_kafka_configs_sets_describes_and_removes_quotas(ours: str, jars: object) -> None:
    here = ("--bootstrap-server", ours)
    for entity, key, name in [
        ("users", "producer_byte_rate", "java-user"),
        ("clients", "request_percentage", "java-client"),
        ("ips", "connection_creation_rate", "10.11.12.13"),
    ]:
        who = (*here, "--entity-type", entity, "--entity-name", name)
        run_tool(CONFIGS, *who, "--alter", "--add-config", f"{key}=12345")
        assert f"{key}=12345.0" in run_tool(CONFIGS, *who, "--describe")
        run_tool(CONFIGS, *who, "--alter", "--delete-config", key)
        assert key not in run_tool(CONFIGS, *who, "--describe")
