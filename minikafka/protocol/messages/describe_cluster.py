"""DescribeCluster (API 60): brokers, controller, cluster id (KIP-700).

- 1: ``endpoint_type``: 1 asks for brokers, 2 for controllers (KIP-919).
- 2: fenced brokers too (KIP-1073).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, boolean, int8, int16, int32, string


class Request(schema.Request, api_key=60, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8(versions="1+", default=1)
    include_fenced_brokers: bool = boolean(versions="2+", default=False)


class Broker(Struct):
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean(versions="2+", default=False)


class Response(schema.Response, api_key=60, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8(versions="1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[Broker] = array(Broker)
    cluster_authorized_operations: int = int32(default=-2147483648)
