"""DescribeConfigs 1-4: settings of resources, and the source of each value.

A topic has all its settings; this broker, by its id, all of its own, with those that are fixed at
start as read-only; the empty broker name only the settings for all brokers. Sources and synonyms
are KIP-226's, types and documentation (version 3) KIP-569's. As in Kafka, null or no setting names
mean all. Settings that hold a secret are sensitive, and have no value in the answer, and so have
dynamic broker settings that this broker does not know. Log levels (KIP-412) are
resources of type 8. A group (KIP-848) or client metrics subscription (KIP-714) has all its
settings, whether it exists or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.decision import Refusal
from ...metadata.settings import SettingType
from ...protocol.errors import ErrorCode
from ...protocol.messages import describe_configs
from ..settings.log_levels import log_levels
from ..system.pace import paced
from .config_entries import (
    ConfigSource,
    SettingEntry,
    broker_entries,
    client_metrics_entries,
    every_broker_entries,
    group_entries,
    overridden,
    topic_entries,
    unknown_entries,
)
from .config_resources import (
    RESOURCES_PER_REQUEST_MAX,
    ResourceType,
    name_problem,
    node_problem,
    too_many,
    topic_problem,
    unsupported_type,
)

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_UNKNOWN_TYPE = 0
_Entries = list[describe_configs.ResourceResult]


async def handle(
    broker: Broker, context: RequestContext, request: describe_configs.Request
) -> describe_configs.Response:
    del context
    results: list[describe_configs.Result] = []
    of_topics = topic_entries(broker.settings)
    async for resource in paced(request.resources, broker.clock.monotonic):
        described: _Entries | Refusal = too_many()
        if len(results) < RESOURCES_PER_REQUEST_MAX:
            described = _describe(broker, resource, request, of_topics)
        refusal = described if isinstance(described, Refusal) else None
        results.append(
            describe_configs.Result(
                error_code=ErrorCode.NONE if refusal is None else refusal.error_code,
                error_message=None if refusal is None else refusal.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=[] if isinstance(described, Refusal) else described,
            )
        )
    return describe_configs.Response(results=results)


def entries_of(response: describe_configs.Response) -> int:
    return sum(1 + len(result.configs) for result in response.results)


def _describe(
    broker: Broker,
    resource: describe_configs.Resource,
    request: describe_configs.Request,
    of_topics: list[SettingEntry],
) -> _Entries | Refusal:
    name = resource.resource_name
    wanted = frozenset(resource.configuration_keys or ())
    match resource.resource_type:
        case ResourceType.TOPIC:
            refusal = topic_problem(broker, name)
            if refusal is not None:
                return refusal
            entries = overridden(of_topics, broker.image.topic_settings(name))
        case ResourceType.BROKER if not name:
            entries = every_broker_entries(broker.settings)
        case ResourceType.BROKER:
            refusal = node_problem(broker, name)
            if refusal is not None:
                return refusal
            entries = broker_entries(broker.settings)
        case ResourceType.CLIENT_METRICS | ResourceType.GROUP as kind:
            refusal = name_problem(name)
            if refusal is not None:
                return refusal
            is_group = kind == ResourceType.GROUP
            entries = (group_entries if is_group else client_metrics_entries)(broker.settings, name)
        case ResourceType.BROKER_LOGGER:
            return node_problem(broker, name) or _loggers(wanted)
        case other:
            return unsupported_type(other)
    shown = [
        _show(entry, request, is_dynamic=entry.setting.is_dynamic)
        for entry in entries
        if not wanted or entry.setting.name in wanted
    ]
    if resource.resource_type == ResourceType.BROKER:
        shown += [
            _show_unknown(unknown, source, request)
            for unknown, source in unknown_entries(broker.settings, name).items()
            if not wanted or unknown in wanted
        ]
    return shown


def _show(
    entry: SettingEntry, request: describe_configs.Request, *, is_dynamic: bool
) -> describe_configs.ResourceResult:
    setting = entry.setting
    synonyms = entry.synonyms if request.include_synonyms else []
    is_secret = setting.kind is SettingType.PASSWORD
    return describe_configs.ResourceResult(
        name=setting.name,
        value=None if is_secret else entry.value,
        read_only=not is_dynamic,
        config_source=entry.source,
        is_sensitive=is_secret,
        synonyms=[
            describe_configs.Synonym(name=name, value=None if is_secret else value, source=source)
            for name, value, source in synonyms
        ],
        config_type=setting.kind,
        documentation=setting.doc if request.include_documentation else None,
    )


def _show_unknown(
    name: str, source: ConfigSource, request: describe_configs.Request
) -> describe_configs.ResourceResult:
    """As in Kafka, nothing is known about it, so that it may be a secret."""
    doc = "This broker does not know it; it has no effect."
    return describe_configs.ResourceResult(
        name=name,
        value=None,
        read_only=False,
        config_source=source,
        is_sensitive=True,
        synonyms=[],
        config_type=_UNKNOWN_TYPE,
        documentation=doc if request.include_documentation else None,
    )


def _loggers(wanted: frozenset[str]) -> _Entries:
    return [
        describe_configs.ResourceResult(
            name=name,
            value=level,
            read_only=False,
            config_source=ConfigSource.BROKER_LOGGER,
            is_sensitive=False,
            synonyms=[],
            config_type=SettingType.STRING,
        )
        for name, level in log_levels().items()
        if not wanted or name in wanted
    ]
