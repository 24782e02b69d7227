"""SaslHandshake (API 17): the client names its SASL mechanism.

- 0: raw SASL tokens follow, without Kafka's framing beyond a size.
- 1: tokens follow in SaslAuthenticate requests (KIP-152).

There is no flexible version: older clients negotiate this API wrongly (KAFKA-9577).
"""

from minikafka.protocol.schema import Request, Response, array, int16, string


class SaslHandshakeRequest(Request, api_key=17, versions="0-1"):
    mechanism: str = string()


class SaslHandshakeResponse(Response, api_key=17, versions="0-1"):
    error_code: int = int16()
    mechanisms: list[str] = array(string(), default_factory=list)
