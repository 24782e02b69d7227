"""Describes and alters settings, one resource at a time."""

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import alter_configs, describe_configs, incremental_alter_configs
from tests.kit.wire import WireClient

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
FROM_TOPIC, FROM_THIS_BROKER, FROM_ALL_BROKERS, FROM_FILE, DEFAULT, FROM_LOGGER = range(1, 7)


async def describe(
    client: WireClient,
    resource_type: int,
    name: str,
    keys: list[str] | None = None,
    *,
    version: int = 4,
    details: bool = False,
) -> describe_configs.Result:
    resource = describe_configs.Resource(
        resource_type=resource_type, resource_name=name, configuration_keys=keys
    )
    request = describe_configs.Request(
        resources=[resource], include_synonyms=details, include_documentation=details
    )
    (result,) = (await client.ask(request, version, describe_configs.Response)).results
    assert (result.resource_type, result.resource_name) == (resource_type, name)
    assert bool(result.error_message) == bool(result.error_code)
    return result


async def entries(
    client: WireClient, resource_type: int, name: str, keys: list[str] | None = None
) -> dict[str, describe_configs.ResourceResult]:
    result = await describe(client, resource_type, name, keys, details=True)
    assert result.error_code == ErrorCode.NONE
    return {one.name: one for one in result.configs}


async def change(
    client: WireClient,
    resource_type: int,
    name: str,
    *changes: tuple[str, int, str | None],
    validate_only: bool = False,
    version: int = 1,
) -> int:
    resource = incremental_alter_configs.Resource(
        resource_type=resource_type,
        resource_name=name,
        configs=[
            incremental_alter_configs.AlterableConfig(
                name=key, config_operation=operation, value=value
            )
            for key, operation, value in changes
        ],
    )
    request = incremental_alter_configs.Request(resources=[resource], validate_only=validate_only)
    (answer,) = (await client.ask(request, version, incremental_alter_configs.Response)).responses
    assert (answer.resource_type, answer.resource_name) == (resource_type, name)
    assert bool(answer.error_message) == bool(answer.error_code)
    return answer.error_code


async def replace(
    client: WireClient,
    resource_type: int,
    name: str,
    settings: dict[str, str | None],
    *,
    validate_only: bool = False,
    version: int = 2,
) -> int:
    resource = alter_configs.Resource(
        resource_type=resource_type,
        resource_name=name,
        configs=[
            alter_configs.AlterableConfig(name=key, value=value) for key, value in settings.items()
        ],
    )
    request = alter_configs.Request(resources=[resource], validate_only=validate_only)
    (answer,) = (await client.ask(request, version, alter_configs.Response)).responses
    assert (answer.resource_type, answer.resource_name) == (resource_type, name)
    return answer.error_code
