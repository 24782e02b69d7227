"""Heartbeat (API 12): a member of a classic group is alive, and hears of a rebalance.

- 3: static members (KIP-345).
- 4: flexible.
"""

from minikafka.protocol.schema import Request, Response, int16, int32, string


class HeartbeatRequest(Request, api_key=12, versions="0-4", flexible="4+"):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)


class HeartbeatResponse(Response, api_key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32(versions="1+", default=0)
    error_code: int = int16()
