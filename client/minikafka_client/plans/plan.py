"""What a plan may ask for, and how it is answered.

A plan is a generator. It yields a `Call`, a `CallAll` or a pause, and is sent the answer, or has
the error thrown into it. It does not know how the waiting is done: a driver on trio and one on
blocking sockets run the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from minikafka.protocol.schema import Request, Response
from minikafka_client.core.cluster import ANY_BROKER as ANY_BROKER
from minikafka_client.core.cluster import CONTROLLER as CONTROLLER
from minikafka_client.errors import KafkaError

_Result = TypeVar("_Result")
_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")
_Response = TypeVar("_Response", bound=Response)


class Call(NamedTuple):
    """Ask for a request to be sent and its response to be waited for.

    ``node`` is a node id, `ANY_BROKER` or `CONTROLLER`. The version is the newest that both sides
    have within ``version_min`` and ``version_max``. ``timeout_ms`` replaces ``request_timeout_ms``.
    """

    node: int
    request: Request
    version_min: int = 0
    version_max: int = 32767
    timeout_ms: int | None = None


class CallAll(NamedTuple):
    """Concurrent calls; answered with a response or an error for each, in order."""

    calls: Sequence[Call]


class Pause(NamedTuple):
    seconds: float


class RetryPause(NamedTuple):
    """Ask for the jittered back-off before retry number ``attempt`` (the first is 0).

    ``error`` is what failed; it is thrown into the plan instead when its timeout has expired.
    """

    attempt: int
    error: KafkaError


Ask = Call | CallAll | Pause | RetryPause
Plan = Generator[Ask, Any, _Result]


def call(
    node: int,
    request: Request,
    response_type: type[_Response],
    *,
    version_min: int = 0,
    version_max: int = 32767,
    timeout_ms: int | None = None,
) -> Plan[_Response]:
    """Send one request and return its response; used with ``yield from``."""
    response = yield Call(node, request, version_min, version_max, timeout_ms)
    assert isinstance(response, response_type)
    return response


def call_all(
    calls: Sequence[Call], response_type: type[_Response]
) -> Plan[list[_Response | KafkaError]]:
    """Send requests concurrently; an error is returned in its place, not raised."""
    del response_type  # it only types the result
    return cast("list[_Response | KafkaError]", (yield CallAll(calls)))


def call_nodes(
    by_node: Mapping[int, Sequence[_Key]],
    make_call: Callable[[int, Sequence[_Key]], Call],
    response_type: type[_Response],
    read: Callable[[int, _Response], Mapping[_Key, _Value | KafkaError]],
    outcome: dict[_Key, _Value | KafkaError],
) -> Plan[None]:
    """Call nodes concurrently, each about its keys, and add what they answer to ``outcome``."""
    calls = [make_call(node, asked) for node, asked in by_node.items()]
    answers = yield from call_all(calls, response_type)
    for (node, asked), answer in zip(by_node.items(), answers, strict=True):
        if isinstance(answer, KafkaError):
            outcome.update(dict.fromkeys(asked, answer))
        else:
            outcome.update(read(node, answer))
