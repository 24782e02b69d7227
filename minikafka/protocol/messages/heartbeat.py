"""Heartbeat (API 12): keeps a member of a classic group alive, and notifies it of a rebalance.

- 3: static members (KIP-345).
- 4: flexible.
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import int16, int32, string


class Request(schema.Request, api_key=12, versions="0-4", flexible="4+"):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)


class Response(schema.Response, api_key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32(versions="1+", default=0)
    error_code: int = int16()
