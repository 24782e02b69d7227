"""AlterUserScramCredentials (API 51): create, change or delete SCRAM credentials (KIP-554).

``mechanism`` is 1 for SCRAM-SHA-256, 2 for SCRAM-SHA-512; passwords are sent salted, never plain.
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int8, int16, int32, octets, string


class ScramCredentialDeletion(Struct):
    name: str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Struct):
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = octets()
    salted_password: bytes = octets()


class Request(schema.Request, api_key=51, versions="0", flexible="0+"):
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class Result(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class Response(schema.Response, api_key=51, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    results: list[Result] = array(Result)
