"""DescribeUserScramCredentials (API 50): which SCRAM mechanisms users have (KIP-554).

``mechanism`` is 1 for SCRAM-SHA-256, 2 for SCRAM-SHA-512. Null users ask for all.
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int8, int16, int32, string


class UserName(Struct):
    name: str = string()


class Request(schema.Request, api_key=50, versions="0", flexible="0+"):
    users: list[UserName] | None = array(UserName, nullable="0+")


class CredentialInfo(Struct):
    mechanism: int = int8()
    iterations: int = int32()


class Result(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


class Response(schema.Response, api_key=50, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[Result] = array(Result)
