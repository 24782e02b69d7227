"""ApiVersions 0-5 (KIP-35, KIP-511): the APIs that this broker serves, from the handler table.

The connection itself answers a version above the table's with UNSUPPORTED_VERSION in version 0.
Supported features (KIP-584) whose lowest level is 0 are listed from version 4 on (KAFKA-17011);
finalized features are in every answer. From version 5 on a client may say which cluster and node it
believes to speak to; another one is REBOOTSTRAP_REQUIRED (KIP-1242), so that a client that finds
somebody else at an address that it remembers starts over from its bootstrap servers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...metadata.image import RESOURCE_CLIENT_METRICS
from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages import api_versions
from ..control.voter_changes import KRAFT_VERSION
from ..settings.features import FEATURES
from . import API_TABLE

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_VERSION_FIRST = 3
_FEATURES_FROM_ZERO_FIRST = 4
# As in Kafka, clients hear of these only if somebody wants metrics; librdkafka logs each time.
_TELEMETRY = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})


def supported_versions() -> list[api_versions.ApiVersion]:
    return [
        api_versions.ApiVersion(
            api_key=handler.api_key,
            min_version=handler.advertised_first,
            max_version=handler.last_version,
        )
        for _, handler in sorted(API_TABLE.items())
    ]


async def handle(
    broker: Broker, context: RequestContext, request: api_versions.Request
) -> api_versions.Response:
    """Answer with the table; malformed names of client software are refused, as in Kafka."""
    if context.api_version >= _SOFTWARE_VERSION_FIRST and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return api_versions.Response(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
    if context.connection is not None and request.client_software_name:
        software = (request.client_software_name, request.client_software_version)
        context.connection.software = software
    if request.cluster_id is not None and (
        request.cluster_id != broker.store.cluster_id or request.node_id != broker.node_id
    ):
        return api_versions.Response(error_code=ErrorCode.REBOOTSTRAP_REQUIRED, api_keys=[])
    served = supported_versions()
    if not any(kind == RESOURCE_CLIENT_METRICS for kind, _ in broker.image.settings):
        served = [one for one in served if one.api_key not in _TELEMETRY]
    response = api_versions.Response(error_code=ErrorCode.NONE, api_keys=served)
    if context.api_version >= _FEATURES_FROM_ZERO_FIRST:
        response.supported_features = [
            api_versions.SupportedFeatureKey(
                name=name, min_version=one.lowest, max_version=one.highest
            )
            for name, one in FEATURES.items()
        ]
    response.finalized_features_epoch = 0
    levels = {name: one.level for name, one in FEATURES.items()}
    levels[KRAFT_VERSION] = broker.voter_changes.kraft_version
    response.finalized_features = [
        api_versions.FinalizedFeatureKey(
            name=name, max_version_level=level, min_version_level=level
        )
        for name, level in levels.items()
        if level  # as in Kafka, level 0 is that of a feature that is not finalized
    ]
    return response
