"""DescribeConfigs 1-4: settings of topics, brokers and loggers, and where each value comes from.

A topic shows all its settings; this broker, by its number, all of its own with those fixed at start
as read-only; the empty broker name only what was set for all brokers. Sources and synonyms are
KIP-226's, types and documentation (version 3) KIP-569's. No names to look for (null or none, as
Kafka takes it) mean all. Nothing is sensitive: this broker has no secrets in its settings.
Log levels (KIP-412) are the resource of type 8. Not here: client metrics and groups as resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ...metadata.decision import Refusal
from ...metadata.settings import SettingType
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ..config_resources import (
    RESOURCES_PER_REQUEST_MAX,
    ResourceType,
    node_problem,
    too_many,
    topic_problem,
    unsupported_type,
)
from ..log_levels import log_levels
from ..setting_entries import (
    ConfigSource,
    SettingEntry,
    broker_entries,
    every_broker_entries,
    overridden,
    topic_entries,
)

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext

_RESOURCES_PER_CHECKPOINT = 32
_Entries = list[DescribeConfigsResourceResult]


async def handle(
    broker: Broker, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Describe each resource, or say why it cannot be."""
    del context
    results: list[DescribeConfigsResult] = []
    of_topics = topic_entries(broker)
    for number, resource in enumerate(request.resources):
        described: _Entries | Refusal = too_many()
        if number < RESOURCES_PER_REQUEST_MAX:
            described = _describe(broker, resource, request, of_topics)
        if number % _RESOURCES_PER_CHECKPOINT == _RESOURCES_PER_CHECKPOINT - 1:
            await trio.lowlevel.checkpoint()
        refusal = described if isinstance(described, Refusal) else None
        results.append(
            DescribeConfigsResult(
                error_code=ErrorCode.NONE if refusal is None else refusal.error_code,
                error_message=None if refusal is None else refusal.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=[] if isinstance(described, Refusal) else described,
            )
        )
    return DescribeConfigsResponse(results=results)


def _describe(
    broker: Broker,
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
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
            entries = every_broker_entries(broker)
        case ResourceType.BROKER:
            refusal = node_problem(broker, name)
            if refusal is not None:
                return refusal
            entries = broker_entries(broker)
        case ResourceType.BROKER_LOGGER:
            return node_problem(broker, name) or _loggers(wanted)
        case other:
            return unsupported_type(other)
    return [
        _show(entry, request, is_dynamic=entry.setting.is_dynamic)
        for entry in entries
        if not wanted or entry.setting.name in wanted
    ]


def _show(
    entry: SettingEntry, request: DescribeConfigsRequest, *, is_dynamic: bool
) -> DescribeConfigsResourceResult:
    setting = entry.setting
    synonyms = entry.synonyms if request.include_synonyms else []
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=entry.value,
        read_only=not is_dynamic,
        config_source=entry.source,
        is_sensitive=False,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=value, source=source)
            for name, value, source in synonyms
        ],
        config_type=setting.kind,
        documentation=setting.doc if request.include_documentation else None,
    )


def _loggers(wanted: frozenset[str]) -> _Entries:
    return [
        DescribeConfigsResourceResult(
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
