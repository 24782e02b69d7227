"""Plans for configurations: describe, alter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from minikafka.protocol.messages import describe_configs as describe_configs_api
from minikafka.protocol.messages import incremental_alter_configs
from minikafka.protocol.schema import Response
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import KafkaError
from minikafka_client.plans.plan import ANY_BROKER, Call, Plan, call_nodes
from minikafka_client.plans.rounds import in_rounds, outcome_of, refresh_metadata
from minikafka_client.types import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
)

_Value = TypeVar("_Value")
_Response = TypeVar("_Response", bound=Response)
_SOURCES = {int(source): source for source in ConfigSource}
_BY_NODE = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)


def describe_configs(
    cluster: Cluster,
    resources: Iterable[ConfigResource],
    *,
    names: Iterable[str] | None = None,
    include_documentation: bool = False,
) -> Plan[dict[ConfigResource, dict[str, ConfigEntry]]]:
    """Read the settings of resources; ``names`` limits them to these.

    Raises:
        BrokerError: the only resource asked for was refused.
        SomeFailedError: some of several resources were refused.
    """
    keys = None if names is None else list(names)

    def make_call(node: int, asked: Sequence[ConfigResource]) -> Call:
        request = describe_configs_api.Request(
            resources=[
                describe_configs_api.Resource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configuration_keys=keys,
                )
                for resource in asked
            ],
            include_documentation=include_documentation,
        )
        return Call(node, request)

    def read(
        response: describe_configs_api.Response,
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
        outcome: dict[ConfigResource, dict[str, ConfigEntry] | KafkaError] = {}
        for result in response.results:
            resource = ConfigResource(
                ConfigResourceType(result.resource_type), result.resource_name
            )
            outcome[resource] = outcome_of(
                {config.name: _entry(config) for config in result.configs},
                result.error_code,
                f"{resource.type.name.lower()} {resource.name!r}",
                result.error_message,
            )
        return outcome

    return in_rounds(
        resources,
        lambda wanted: _at_owners(cluster, wanted, make_call, describe_configs_api.Response, read),
    )


def _entry(config: describe_configs_api.ResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=config.name,
        value=config.value,
        source=_SOURCES.get(config.config_source, ConfigSource.UNKNOWN),
        is_read_only=config.read_only,
        is_sensitive=config.is_sensitive,
        documentation=config.documentation or None,
    )


def alter_configs(
    cluster: Cluster,
    changes: Mapping[ConfigResource, Iterable[ConfigChange]],
    *,
    validate_only: bool = False,
) -> Plan[None]:
    """Change single settings and leave the others as they are (IncrementalAlterConfigs, KIP-339).

    Raises:
        BrokerError: the only resource asked for was refused (INVALID_CONFIG, ...).
        SomeFailedError: some of several resources were refused.
    """
    wanted = {resource: list(edits) for resource, edits in changes.items()}

    def make_call(node: int, asked: Sequence[ConfigResource]) -> Call:
        request = incremental_alter_configs.Request(
            resources=[
                incremental_alter_configs.Resource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=[
                        incremental_alter_configs.AlterableConfig(
                            name=edit.name, config_operation=edit.operation, value=edit.value
                        )
                        for edit in wanted[resource]
                    ],
                )
                for resource in asked
            ],
            validate_only=validate_only,
        )
        return Call(node, request)

    def read(
        response: incremental_alter_configs.Response,
    ) -> dict[ConfigResource, KafkaError | None]:
        outcome: dict[ConfigResource, KafkaError | None] = {}
        for result in response.responses:
            resource = ConfigResource(
                ConfigResourceType(result.resource_type), result.resource_name
            )
            outcome[resource] = outcome_of(
                None,
                result.error_code,
                f"{resource.type.name.lower()} {resource.name!r}",
                result.error_message,
            )
        return outcome

    yield from in_rounds(
        wanted,
        lambda asked: _at_owners(
            cluster, asked, make_call, incremental_alter_configs.Response, read
        ),
    )


def _at_owners(
    cluster: Cluster,
    resources: Sequence[ConfigResource],
    make_call: Callable[[int, Sequence[ConfigResource]], Call],
    response_type: type[_Response],
    read: Callable[[_Response], Mapping[ConfigResource, _Value | KafkaError]],
) -> Plan[Mapping[ConfigResource, _Value | KafkaError]]:
    """Attempt: a named broker knows its own configuration, any broker knows the others'."""
    if not cluster.brokers:
        yield from refresh_metadata()
    by_node: dict[int, list[ConfigResource]] = {}
    for resource in resources:
        is_named_broker = resource.type in _BY_NODE and resource.name.isdecimal()
        node = int(resource.name) if is_named_broker else ANY_BROKER
        by_node.setdefault(node, []).append(resource)
    outcome: dict[ConfigResource, _Value | KafkaError] = {}
    yield from call_nodes(
        by_node, make_call, response_type, lambda _node, answer: read(answer), outcome
    )
    return outcome
