"""PushTelemetry (API 72): a client's metrics, as OpenTelemetry's MetricsData (KIP-714)."""

from minikafka.protocol import schema
from minikafka.protocol.fields import boolean, int8, int16, int32, octets, uuid


class Request(schema.Request, api_key=72, versions="0", flexible="0+"):
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = octets()


class Response(schema.Response, api_key=72, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
