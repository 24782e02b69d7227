"""ApiVersions 0-4 (KIP-35, KIP-511): which APIs this broker serves, read off the handler table.

A version above the table's is answered in version 0 with UNSUPPORTED_VERSION by the connection
itself. Features (KIP-584) that begin at 0 are for version 4 on (KAFKA-17011), but what is in force
is told to all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ..features import FEATURES
from . import API_TABLE

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_VERSION_FIRST = 3
_FEATURES_FROM_ZERO_FIRST = 4


def supported_versions() -> list[ApiVersion]:
    """The handler table as ApiVersions shows it, by key."""
    return [
        ApiVersion(
            api_key=handler.api_key,
            min_version=handler.advertised_first,
            max_version=handler.last_version,
        )
        for _, handler in sorted(API_TABLE.items())
    ]


async def handle(
    broker: Broker, context: RequestContext, request: ApiVersionsRequest
) -> ApiVersionsResponse:
    """Answer with the table; a nameless client software is refused as in Kafka."""
    del broker
    if context.api_version >= _SOFTWARE_VERSION_FIRST and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
    response = ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=supported_versions())
    if context.api_version >= _FEATURES_FROM_ZERO_FIRST:
        response.supported_features = [
            SupportedFeatureKey(name=name, min_version=one.lowest, max_version=one.highest)
            for name, one in FEATURES.items()
        ]
    response.finalized_features_epoch = 0
    response.finalized_features = [
        FinalizedFeatureKey(name=name, max_version_level=one.level, min_version_level=one.level)
        for name, one in FEATURES.items()
    ]
    return response
