"""Kafka as the protocol sees it: the real transaction coordinator, and one topic of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from minikafka.coordinator.transaction import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    SendMarkers,
    TransactionState,
)
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    api_versions,
    describe_transactions,
    end_txn,
    find_coordinator,
    init_producer_id,
    list_transactions,
    metadata,
)
from minikafka.protocol.schema import Request, Response
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import (
    BrokerError,
    KafkaError,
    RequestTimeoutError,
    TwoPhaseCommitError,
)
from minikafka_client.plans.coordinators import TRANSACTION_KEY_TYPE
from minikafka_client.plans.plan import Ask, Call, CallAll, Plan, RetryPause
from minikafka_client.plans.transactions import (
    Coordinator,
    Identity,
    end_transaction,
    init_producer,
)
from minikafka_client.plans.two_phase_commit import init_two_phase
from pyspark_minikafka.sink.commit_log import decode_commit, encode_commit
from pyspark_minikafka.sink.protocol import CommitRecord, Part
from pyspark_minikafka.sink.transactions import abort_part, commit_parts, find_open_parts
from tests.coordinator.transaction import harness

_Result = TypeVar("_Result")
Pause = Callable[[], None]

TIMEOUT_MS = 60_000
ROWS, COMMIT_LOG = ("rows", 0), ("commits", 0)
_NODE = 1
_SPOKEN = {ApiKey.PRODUCE: 12, ApiKey.END_TXN: 5, ApiKey.TXN_OFFSET_COMMIT: 5}


class ModelKafka:
    """One broker.

    Attributes:
        visible: the committed rows, in order.
        commits: the records of the commit log, encoded.
        failures_ahead: the next requests fail before (False) or after (True) they take effect.
    """

    def __init__(self, *, allows_two_phases: bool) -> None:
        self.allows_two_phases = allows_two_phases
        self.coordinator = harness.Coordinator(is_two_phase_commit_enabled=allows_two_phases)
        self.visible: list[str] = []
        self.commits: dict[str, bytes] = {}
        self.failures_ahead: list[bool] = []
        self._open: dict[int, tuple[int, list[str | tuple[str, bytes]]]] = {}

    def transactions(self, state: TransactionState) -> list[str]:
        """The transactional ids with a transaction in a state."""
        entries = self.coordinator.shard.entries()
        return [each.transactional_id for each in entries if each.state is state]

    def append(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partition: tuple[str, int],
        item: str | tuple[str, bytes],
    ) -> None:
        """Produce in a transaction; a leader verifies it before the first batch."""
        producer_id, epoch = producer
        if self._open.get(producer_id, (-1,))[0] != epoch:
            command = AddPartitions(
                transactional_id, *producer, (partition,), transaction_version=2
            )
            code = self.coordinator.ask(command).error_code
            if code is not ErrorCode.NONE:
                raise BrokerError(code, "append")
            self._open[producer_id] = (epoch, [])
        self._open[producer_id][1].append(item)

    def serve(self, request: Request) -> Response:
        """Answer a request."""
        match request:
            case metadata.Request():
                broker = metadata.Broker(node_id=_NODE, host="h", port=1)
                return metadata.Response(brokers=[broker], controller_id=_NODE, topics=[])
            case find_coordinator.Request():
                return find_coordinator.Response(error_code=0, node_id=_NODE, host="h", port=1)
            case api_versions.Request():
                return api_versions.Response(
                    error_code=0,
                    api_keys=[
                        api_versions.ApiVersion(api_key=key, min_version=0, max_version=newest)
                        for key, newest in _SPOKEN.items()
                    ],
                    finalized_features=[
                        api_versions.FinalizedFeatureKey(
                            name="transaction.version", max_version_level=2, min_version_level=2
                        )
                    ],
                )
            case init_producer_id.Request():
                return self._init_producer(request)
            case end_txn.Request():
                return self._end_transaction(request)
            case list_transactions.Request():
                return self._listed(request)
            case describe_transactions.Request():
                return self._described(request)
            case _:
                raise AssertionError(f"the model has no handler for {request}")

    def _init_producer(self, request: init_producer_id.Request) -> init_producer_id.Response:
        assert request.transactional_id is not None
        reply = self._ask(
            InitProducer(
                request.transactional_id,
                request.transaction_timeout_ms,
                request.producer_id,
                request.producer_epoch,
                request.enable2_pc,
                request.keep_prepared_txn,
            )
        )
        return init_producer_id.Response(
            error_code=reply.error_code,
            producer_id=reply.producer_id,
            producer_epoch=reply.producer_epoch,
            ongoing_txn_producer_id=reply.ongoing_producer_id,
            ongoing_txn_producer_epoch=reply.ongoing_producer_epoch,
        )

    def _end_transaction(self, request: end_txn.Request) -> end_txn.Response:
        reply = self._ask(
            EndTransaction(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                request.committed,
                2,
            )
        )
        return end_txn.Response(
            error_code=reply.error_code,
            producer_id=reply.producer_id,
            producer_epoch=reply.producer_epoch,
        )

    def _listed(self, request: list_transactions.Request) -> list_transactions.Response:
        return list_transactions.Response(
            error_code=0,
            unknown_state_filters=[],
            transaction_states=[
                list_transactions.TransactionState(
                    transactional_id=each.transactional_id,
                    producer_id=each.producer_id,
                    transaction_state=each.state.title,
                )
                for each in self.coordinator.shard.entries()
                if each.state.title in request.state_filters
            ],
        )

    def _described(self, request: describe_transactions.Request) -> describe_transactions.Response:
        [name] = request.transactional_ids
        entry = self.coordinator.shard.entry(name)
        assert entry is not None
        described = describe_transactions.TransactionState(
            error_code=0,
            transactional_id=name,
            transaction_state=entry.state.title,
            transaction_timeout_ms=entry.timeout_ms,
            transaction_start_time_ms=entry.start_ms,
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            topics=[],
        )
        return describe_transactions.Response(transaction_states=[described])

    def _ask(self, command: InitProducer | EndTransaction) -> Any:
        reply = self.coordinator.ask(command)
        self.take_markers()
        return reply

    def pass_time(self, seconds: float) -> None:
        """Let time pass; transactions may time out."""
        self.coordinator.pass_time(seconds)
        self.take_markers()

    def take_markers(self) -> None:
        """Apply the markers that the coordinator has decided to write."""
        markers, self.coordinator.markers = self.coordinator.markers, []
        for marker in markers:
            self._mark(marker)

    def _mark(self, marker: SendMarkers) -> None:
        _, items = self._open.pop(marker.producer_id, (-1, []))
        for item in items if marker.commits else ():
            if isinstance(item, str):
                self.visible.append(item)
            else:
                self.commits[item[0]] = item[1]


class ModelFace:
    """Runs plans against the model; pauses before each request, and before its answer."""

    def __init__(self, kafka: ModelKafka, pause: Pause) -> None:
        self.kafka = kafka
        self.pause = pause

    def run_plan(self, start: Callable[[Cluster], Plan[_Result]]) -> _Result:
        cluster = Cluster((("h", 1),))
        plan = start(cluster)
        try:
            ask: Ask = next(plan)
            while True:
                match ask:
                    case Call():
                        answer = self._serve(cluster, ask.request)
                        ask = (
                            plan.throw(answer)
                            if isinstance(answer, KafkaError)
                            else plan.send(answer)
                        )
                    case CallAll(calls):
                        ask = plan.send([self._serve(cluster, call.request) for call in calls])
                    case RetryPause():
                        ask = plan.throw(ask.error)
                    case _:
                        ask = plan.send(None)
        except StopIteration as end:
            result: _Result = end.value
            return result

    def _serve(self, cluster: Cluster, request: Request) -> Response | KafkaError:
        self.pause()
        failures = self.kafka.failures_ahead
        if failures and not failures[-1]:
            failures.pop()
            return RequestTimeoutError("the request was lost")
        response = self.kafka.serve(request)
        if failures and failures.pop():
            return RequestTimeoutError("the response was lost")
        if isinstance(response, metadata.Response):
            cluster.update(response, 0.0)
        self.pause()
        return response

    def newest(self, query_id: str) -> CommitRecord | None:
        self.pause()
        found = self.kafka.commits.get(query_id)
        self.pause()
        return None if found is None else decode_commit(found)


class ModelPart:
    """An open transaction of a task."""

    def __init__(self, face: ModelFace, name: str, producer: tuple[int, int], *, two: bool) -> None:
        self._face = face
        self._part = Part(name, *producer, two)

    def write(self, rows: Iterator[str]) -> None:
        for row in rows:
            self._face.pause()
            self._face.kafka.append(self._part[0], self._part[1:3], ROWS, row)

    def prepare(self) -> Part | None:
        self._face.pause()
        return self._part


class ModelTaskKafka(ModelFace):
    """What a task sees of the model."""

    def begin(self, transactional_id: str) -> ModelPart | None:
        coordinator = Coordinator(transactional_id, TRANSACTION_KEY_TYPE)
        identity = Identity(transactional_id)
        try:
            found = self.run_plan(
                lambda cluster: init_two_phase(
                    cluster,
                    coordinator,
                    identity,
                    TIMEOUT_MS,
                    enable_two_phase_commit=True,
                    keep_prepared=True,
                )
            )
        except TwoPhaseCommitError:
            granted, _ = self.run_plan(
                lambda cluster: init_producer(cluster, coordinator, identity, TIMEOUT_MS)
            )
            return ModelPart(self, transactional_id, granted[1:], two=False)
        if found.ongoing is not None:
            return None
        producer = (found.producer_id, found.producer_epoch)
        return ModelPart(self, transactional_id, producer, two=True)


class ModelLog:
    """The commit log, claimed by a driver."""

    def __init__(self, face: ModelFace, query_id: str, identity: Identity) -> None:
        self._face = face
        self._query_id = query_id
        self._identity = identity

    def newest(self) -> CommitRecord | None:
        return self._face.newest(self._query_id)

    def record(self, record: CommitRecord) -> None:
        self._face.pause()
        identity = self._identity
        value = encode_commit(record)
        self._face.kafka.append(
            identity.transactional_id, identity[1:], COMMIT_LOG, (self._query_id, value)
        )
        coordinator = Coordinator(identity.transactional_id, TRANSACTION_KEY_TYPE)
        self._face.run_plan(
            lambda cluster: end_transaction(
                cluster, coordinator, identity, commits=True, has_own_epochs=True
            )
        )


class ModelDriverKafka(ModelFace):
    """What the driver sees of the model."""

    def claim(self, query_id: str) -> ModelLog:
        name = f"{query_id}-driver"
        coordinator = Coordinator(name, TRANSACTION_KEY_TYPE)
        identity, _ = self.run_plan(
            lambda cluster: init_producer(cluster, coordinator, Identity(name), TIMEOUT_MS)
        )
        return ModelLog(self, query_id, identity)

    def open_parts(self, query_id: str, known: frozenset[str]) -> list[Part]:
        own = known | {f"{query_id}-driver"}
        return self.run_plan(lambda cluster: find_open_parts(cluster, f"{query_id}-", own))

    def commit_parts(self, parts: Any) -> list[Part]:
        return self.run_plan(lambda cluster: commit_parts(cluster, parts))

    def abort_part(self, part: Part) -> None:
        self.run_plan(lambda cluster: abort_part(cluster, part))
