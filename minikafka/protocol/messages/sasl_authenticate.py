"""SaslAuthenticate (API 36): one step of a SASL exchange (KIP-152).

- 1: the session lifetime, after which the client must reauthenticate (KIP-368).
- 2: flexible.
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import int16, int64, octets, string


class Request(schema.Request, api_key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = octets()


class Response(schema.Response, api_key=36, versions="0-2", flexible="2+"):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = octets()
    session_lifetime_ms: int = int64(versions="1+", default=0)
