"""UpdateFeatures (API 57): set the level of the cluster's features (KIP-584).

- 1: three upgrade types instead of a flag, and validation without a change (KIP-778).
- 2: one result for all features (KIP-1022).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, boolean, int8, int16, int32, string


class FeatureUpdateKey(Struct):
    feature: str = string()
    max_version_level: int = int16()
    upgrade_type: int = int8(versions="1+", default=1)
    allow_downgrade: bool = boolean(versions="0", default=False)


class Request(schema.Request, api_key=57, versions="0-2", flexible="0+"):
    timeout_ms: int = int32(default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean(versions="1+", default=False)


class UpdatableFeatureResult(Struct):
    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class Response(schema.Response, api_key=57, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[UpdatableFeatureResult] = array(
        UpdatableFeatureResult, versions="0-1", default_factory=list
    )
