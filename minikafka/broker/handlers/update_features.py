"""UpdateFeatures 0-2: set the levels of the cluster's features (KIP-584, KIP-778, KIP-1022).

The levels are fixed (see `features`), so a feature can only be set to the level that it has. As in
Kafka one refusal is the refusal of the whole request, and a feature that is named twice counts for
the last time. What kind of change it is said to be makes no difference then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ..features import FEATURES

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Agree to what is so, and refuse what is not."""
    del broker, context
    levels = {one.feature: one.max_version_level for one in request.feature_updates}
    for name, level in levels.items():
        problem = _problem(name, level)
        if problem is not None:
            return UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=problem
            )
    return UpdateFeaturesResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        results=[
            UpdatableFeatureResult(feature=name, error_code=ErrorCode.NONE, error_message=None)
            for name in levels
        ],
    )


def _problem(name: str, level: int) -> str | None:
    feature = FEATURES.get(name)
    if feature is None:
        return f"There is no feature {name!r} here; there is {', '.join(FEATURES)}."
    if not feature.lowest <= level <= feature.highest:
        return (
            f"Level {level} of feature {name} is unknown; it has levels {feature.lowest} to "
            f"{feature.highest}."
        )
    if level != feature.level:
        return f"Feature {name} is fixed at level {feature.level}; it cannot have level {level}."
    return None
