"""Drives plans without brokers: a script answers their calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

from minikafka.protocol.messages import find_coordinator, metadata
from minikafka.protocol.schema import Request, Response
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import KafkaError
from minikafka_client.plans.plan import Call, CallAll, Pause, Plan, RetryPause

_Result = TypeVar("_Result")
_Args = ParamSpec("_Args")
Answer = Response | KafkaError
Handler = Callable[[Call], Answer]


class Script:
    """Brokers 1 and 2, and what they answer.

    Args:
        leaders: topic -> the leader of each partition.
        retries_max: this many pauses are granted; then the time is over.

    Attributes:
        calls: what was asked, in order.
        pauses: which retries were waited for.
    """

    def __init__(self, *, retries_max: int = 3, **leaders: list[int]) -> None:
        self.leaders = leaders
        self.controller_id = 1
        self.coordinators: dict[str, int] = {}
        self.retries_max = retries_max
        self.calls: list[Call] = []
        self.pauses: list[int] = []
        self.cluster = Cluster([("h", 9092)])
        self._handlers: dict[type[Request], Iterator[Handler]] = {}

    def on(self, request_type: type[Request], *answers: Handler | Answer) -> Script:
        """Answer requests of a type with these, one after the other, the last one for ever."""
        self._handlers[request_type] = _for_ever([_handler(answer) for answer in answers])
        return self

    def asked(self, request_type: type[Request]) -> list[Any]:
        """The requests of a type, in order."""
        return [call.request for call in self.calls_of(request_type)]

    def calls_of(self, request_type: type[Request]) -> list[Call]:
        """The calls with requests of a type, in order."""
        return [call for call in self.calls if isinstance(call.request, request_type)]

    def run(
        self,
        start: Callable[Concatenate[Cluster, _Args], Plan[_Result]],
        *args: _Args.args,
        **options: _Args.kwargs,
    ) -> _Result:
        plan = start(self.cluster, *args, **options)
        answer: object = None
        error: KafkaError | None = None
        try:
            while True:
                ask = plan.throw(error) if error is not None else plan.send(answer)
                answer = error = None
                match ask:
                    case Call():
                        answer = self._answer(ask)
                        if isinstance(answer, KafkaError):
                            error = answer
                    case CallAll(calls):
                        answer = [self._answer(call) for call in calls]
                    case RetryPause(attempt, cause):
                        self.pauses.append(attempt)
                        error = cause if len(self.pauses) > self.retries_max else None
                    case Pause():
                        pass
        except StopIteration as end:
            result: _Result = end.value
            return result

    def _answer(self, call: Call) -> Answer:
        self.calls.append(call)
        request = call.request
        if type(request) in self._handlers:
            answer = next(self._handlers[type(request)])(call)
        elif isinstance(request, find_coordinator.Request):
            answer = self._coordinator(request)
        else:
            assert isinstance(request, metadata.Request), f"no answer is scripted for {request}"
            answer = self._metadata(request)
        if isinstance(answer, metadata.Response):
            assert isinstance(request, metadata.Request)
            self.cluster.update(answer, 0.0, is_complete=request.topics is None)
        return answer

    def _metadata(self, request: metadata.Request) -> metadata.Response:
        names = (
            list(self.leaders)
            if request.topics is None
            else [topic.name or "" for topic in request.topics]
        )
        return metadata.Response(
            brokers=[metadata.Broker(node_id=n, host="h", port=n) for n in (1, 2)],
            controller_id=self.controller_id,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> metadata.ResponseTopic:
        leaders = self.leaders.get(name)
        return metadata.ResponseTopic(
            error_code=0 if leaders is not None else 3,
            name=name,
            partitions=[
                metadata.Partition(error_code=0, partition_index=index, leader_id=leader)
                for index, leader in enumerate(leaders or [])
            ],
        )

    def _coordinator(self, request: find_coordinator.Request) -> find_coordinator.Response:
        node = self.coordinators.get(request.key, 2)
        return find_coordinator.Response(
            coordinators=[
                find_coordinator.Coordinator(
                    key=request.key,
                    node_id=node,
                    host="h",
                    port=node,
                    error_code=0,
                    error_message=None,
                )
            ]
        )


def _handler(answer: Handler | Answer) -> Handler:
    return (lambda _call: answer) if isinstance(answer, Response | KafkaError) else answer


def _for_ever(handlers: Iterable[Handler]) -> Iterator[Handler]:
    last: Handler | None = None
    for handler in handlers:
        last = handler
        yield handler
    while last is not None:
        yield last
