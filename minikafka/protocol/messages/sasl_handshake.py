"""SaslHandshake (API 17): the client names its SASL mechanism.

- 0: raw SASL tokens follow, each preceded only by its size.
- 1: tokens follow in SaslAuthenticate requests (KIP-152).

There is no flexible version: older clients do not negotiate this API properly (KAFKA-9577).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import array, int16, string


class Request(schema.Request, api_key=17, versions="0-1"):
    mechanism: str = string()


class Response(schema.Response, api_key=17, versions="0-1"):
    error_code: int = int16()
    mechanisms: list[str] = array(string(), default_factory=list)
