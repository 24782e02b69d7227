"""UpdateFeatures 0-2: set the levels of the cluster's features (KIP-584, KIP-778, KIP-1022).

Brokers forward it to the active controller. The levels are fixed (see
`minikafka.broker.settings.features`), so a feature can only be set to its current level; all but
``kraft.version``, which may be raised from 0 to 1 (KIP-853), for good. As in Kafka one error fails
the whole request, and of duplicates the last counts. The type of the change (upgrade, safe or
unsafe downgrade) makes no difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import update_features
from ..control.voter_changes import KRAFT_VERSION
from ..quorum.change_error import ChangeError
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
    try:
        for name, level in levels.items():
            _check(broker, name, level)
        if levels.get(KRAFT_VERSION, 0):
            await broker.voter_changes.upgrade(
                request.timeout_ms / 1000, validates_only=request.validate_only
            )
    except ChangeError as error:
        return update_features.Response(error_code=error.error_code, error_message=error.message)
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


def _check(broker: Broker, name: str, level: int) -> None:
    """Raise ChangeError if a feature cannot have a level."""
    feature = FEATURES.get(name)
    problem = ""
    if feature is None:
        problem = f"Feature {name!r} does not exist; the features are {', '.join(FEATURES)}."
    elif not feature.lowest <= level <= feature.highest:
        problem = (
            f"Level {level} of feature {name} does not exist; its levels are {feature.lowest} to "
            f"{feature.highest}."
        )
    elif name == KRAFT_VERSION:
        if level < broker.voter_changes.kraft_version:
            problem = f"Feature {name} cannot go back to level {level}: the log has the voters."
    elif level != feature.level:
        problem = f"Feature {name} is fixed at level {feature.level}; it cannot have level {level}."
    if problem:
        raise ChangeError(ErrorCode.INVALID_UPDATE_VERSION, problem)
