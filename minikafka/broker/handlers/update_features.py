"""UpdateFeatures 0-2: set the levels of the cluster's features (KIP-584, KIP-778, KIP-1022).

The levels are fixed (see `minikafka.broker.settings.features`), so a feature can only be set to its
current level. As in Kafka one error fails the whole request, and of duplicates the last counts. The
type of the change (upgrade, safe or unsafe downgrade) makes no difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import update_features
from ..settings.features import FEATURES
from ..system.pace import paced

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: update_features.Request
) -> update_features.Response:
    del context
    updates = paced(request.feature_updates, broker.clock.monotonic)
    levels = {one.feature: one.max_version_level async for one in updates}
    for name, level in levels.items():
        problem = _problem(name, level)
        if problem is not None:
            return update_features.Response(
                error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=problem
            )
    return update_features.Response(
        error_code=ErrorCode.NONE,
        error_message=None,
        results=[
            update_features.UpdatableFeatureResult(
                feature=name, error_code=ErrorCode.NONE, error_message=None
            )
            for name in levels
        ],
    )


def _problem(name: str, level: int) -> str | None:
    feature = FEATURES.get(name)
    if feature is None:
        return f"Feature {name!r} does not exist; the features are {', '.join(FEATURES)}."
    if not feature.lowest <= level <= feature.highest:
        return (
            f"Level {level} of feature {name} does not exist; its levels are {feature.lowest} to "
            f"{feature.highest}."
        )
    if level != feature.level:
        return f"Feature {name} is fixed at level {feature.level}; it cannot have level {level}."
    return None
