"""ApiVersions (API 18): which APIs and versions the broker supports. A client's first request.

The broker answers a version that it does not support with UNSUPPORTED_VERSION in the layout of
version 0, and the response header never has tagged fields: the client cannot know better yet.

- 3: flexible; the client's software and its version (KIP-511); the cluster's features (KIP-584).
- 4: a feature's lowest version may be 0 (KAFKA-17011).
- 5: the cluster and the node that the client believes to speak to (KIP-1242).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, boolean, int16, int32, int64, string


class Request(schema.Request, api_key=18, versions="0-5", flexible="3+"):
    client_software_name: str = string(versions="3+", default="")
    client_software_version: str = string(versions="3+", default="")
    cluster_id: str | None = string(versions="5+", nullable="5+", default=None)
    node_id: int = int32(versions="5+", default=-1)


class ApiVersion(Struct):
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Struct):
    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


class FinalizedFeatureKey(Struct):
    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


class Response(schema.Response, api_key=18, versions="0-5", flexible="3+"):
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(versions="1+", default=0)
    supported_features: list[SupportedFeatureKey] = array(
        SupportedFeatureKey, versions="3+", default_factory=list, tag=0
    )
    finalized_features_epoch: int = int64(versions="3+", default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = array(
        FinalizedFeatureKey, versions="3+", default_factory=list, tag=2
    )
    zk_migration_ready: bool = boolean(versions="3+", default=False, tag=3)
