"""Clients on hosts of their own: they write, read and commit offsets, whatever happens."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Final, TypeVar, cast

import trio

from minikafka.lab.simulation.kit.invariants import InvariantViolated
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    create_topics,
    fetch,
    find_coordinator,
    init_producer_id,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
)
from minikafka.protocol.records import encode_batch
from minikafka.protocol.schema import Request, Response
from minikafka.testing.simulation.network import HOST, Network, Note, SimulatedSocket, pass_time
from minikafka.testing.simulation.node import PORT, SimulatedClock, host_of
from tests.kit.wire import (
    WireClient,
    creatable,
    create_request,
    fetch_request,
    produce_request,
    records_of,
)
from tests.simulation.brokers.observation import Observer

TOPIC: Final = "t"
HASTY_TOPIC: Final = "hasty"
PARTITIONS: Final = 2
_ANSWER_SECONDS_MAX: Final = 3.0
_BACKOFF_SECONDS_MAX: Final = 0.1
_PRODUCE_MS_MAX: Final = 2000
_HASTY_PAUSE_SECONDS_MAX: Final = 0.5

_R = TypeVar("_R", bound=Response)


class NoAnswerError(Exception):
    """The outcome of a request is unknown."""


class _Stream:
    """What `WireClient` wants of a stream."""

    def __init__(self, socket: SimulatedSocket) -> None:
        self._socket = socket

    async def send_all(self, content: bytes) -> None:
        await self._socket.send(content)

    async def receive_some(self, size: int) -> bytes:
        return await self._socket.recv(size)


class Client:
    """Connections to brokers, made when they are wanted.

    Attributes:
        host: where it runs.
        is_done: it should end.
    """

    def __init__(self, host: str, seed: int, network: Network, note: Note, nodes: int) -> None:
        self.host = host
        self.dice = random.Random(f"{host} {seed}")
        self.note = note
        self.is_done = False
        self._network = network
        self._nodes = nodes
        self._leaders: dict[tuple[str, int], tuple[int, int]] = {}  # epoch, node
        self._connections: dict[int, tuple[SimulatedSocket, WireClient]] = {}

    async def run(self) -> None:
        raise NotImplementedError

    async def ask(self, node_id: int, request: Request, version: int, kind: type[_R]) -> _R:
        """Ask a broker.

        Raises:
            NoAnswerError: the connection broke, or no answer came in time.
        """
        try:
            with trio.fail_after(_ANSWER_SECONDS_MAX):
                client = await self._connect(node_id)
                correlation_id = await client.send(request, version)
                frame_id, answer = await client.receive(kind, version)
        except (OSError, trio.ClosedResourceError, trio.TooSlowError) as error:
            self.drop(node_id)
            raise NoAnswerError(str(error)) from None
        if frame_id != correlation_id:
            raise InvariantViolated(
                "answers in order", f"{self.host}: answer {frame_id} to request {correlation_id}"
            )
        return answer

    async def _connect(self, node_id: int) -> WireClient:
        found = self._connections.get(node_id)
        if found is None:
            socket = SimulatedSocket(self._network, self.host)
            await socket.connect((host_of(node_id), PORT))
            client = WireClient(cast("trio.SocketStream", _Stream(socket)))
            found = self._connections[node_id] = (socket, client)
        return found[1]

    def drop(self, node_id: int) -> None:
        """Close the connection to a broker; what was sent is still on its way."""
        found = self._connections.pop(node_id, None)
        if found is not None:
            found[0].close()

    def drop_all(self) -> None:
        for node_id in list(self._connections):
            self.drop(node_id)

    async def back_off(self) -> None:
        await pass_time(self.dice.uniform(0.01, _BACKOFF_SECONDS_MAX))

    def any_node(self) -> int:
        return self.dice.randint(1, self._nodes)

    async def leader(self, partition: int, name: str = TOPIC) -> int:
        """The leader of a partition, as some broker says, unless its metadata is older than ours.

        Raises:
            NoAnswerError: it says nothing.
        """
        topic = metadata.RequestTopic(name=name)
        request = metadata.Request(topics=[topic], allow_auto_topic_creation=False)
        answer = await self.ask(self.any_node(), request, 9, metadata.Response)
        for found in answer.topics:
            for one in found.partitions:
                newest, _ = self._leaders.get((name, partition), (-1, 0))
                is_it = one.partition_index == partition and one.leader_id > 0
                if is_it and one.leader_epoch >= newest:
                    self._leaders[name, partition] = one.leader_epoch, one.leader_id
        return self.known_leader(partition, name)

    def known_leader(self, partition: int, name: str = TOPIC) -> int:
        """The last known leader, or any broker."""
        known = self._leaders.get((name, partition))
        return self.any_node() if known is None else known[1]

    async def coordinator(self, key: str, key_type: int) -> int:
        """The coordinator of a group (key type 0) or a transactional id (1)."""
        request = find_coordinator.Request(key=key, key_type=key_type)
        answer = await self.ask(self.any_node(), request, 3, find_coordinator.Response)
        return answer.node_id if answer.node_id > 0 else self.any_node()

    async def create_topic(self, name: str) -> None:
        """Make a topic; tries until it is there."""
        request = create_request(creatable(name, PARTITIONS, self._nodes))
        while True:
            try:
                answer = await self.ask(self.any_node(), request, 7, create_topics.Response)
            except NoAnswerError:
                continue
            if answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                return
            await self.back_off()


class Writer(Client):
    """An idempotent producer with acks=all that tries each batch until it is taken.

    Attributes:
        pause_s_max: how long it may rest between two batches.
        acknowledged: (offset, value) of each record that was.
        pending: values of the batch that is being tried.
    """

    def __init__(self, partition: int, seed: int, network: Network, note: Note, nodes: int) -> None:
        super().__init__(f"writer{partition}", seed, network, note, nodes)
        self.partition = partition
        self.pause_s_max = 0.1
        self.acknowledged: list[tuple[int, bytes]] = []
        self.pending: list[bytes] = []
        self.observer: Observer | None = None

    async def run(self) -> None:
        HOST.set(self.host)
        producer_id, producer_epoch = await self._init_producer()
        sequence, leader = 0, self.any_node()
        while not self.is_done:
            count = self.dice.randint(1, 4)
            values = self.pending = [b"%d" % number for number in range(sequence, sequence + count)]
            batch = encode_batch(
                [(None, value, (), SimulatedClock().wall_ms()) for value in values],
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=sequence,
            )
            base_offset = -1
            while base_offset < 0:
                try:
                    base_offset = await self._send(leader, bytes(batch))
                    if base_offset < 0:
                        await self.back_off()
                        leader = await self.leader(self.partition)
                except NoAnswerError:
                    await self.back_off()
                    with suppress(NoAnswerError):
                        leader = await self.leader(self.partition)
            self.acknowledged += enumerate(values, base_offset)
            if self.observer is not None:
                self.observer.acknowledged(TOPIC, self.partition, base_offset, values[0])
            self.pending = []
            sequence += count
            await pass_time(self.dice.uniform(0.0, self.pause_s_max))

    async def _init_producer(self) -> tuple[int, int]:
        request = init_producer_id.Request(transactional_id=None, transaction_timeout_ms=60_000)
        while True:
            try:
                answer = await self.ask(self.any_node(), request, 4, init_producer_id.Response)
            except NoAnswerError:
                continue
            if answer.error_code == ErrorCode.NONE:
                return answer.producer_id, answer.producer_epoch
            await self.back_off()

    async def _send(self, leader: int, batch: bytes) -> int:
        """The offset where a batch is, or -1 to try again."""
        request = produce_request(TOPIC, batch, partition=self.partition, acks=-1)
        request.timeout_ms = _PRODUCE_MS_MAX
        answer = await self.ask(leader, request, 9, produce.Response)
        one = answer.responses[0].partition_responses[0]
        code = ErrorCode(one.error_code)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            return one.base_offset
        self.note(f"{self.host}: {code.name} from {leader}")
        if code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.CORRUPT_MESSAGE):
            raise InvariantViolated(
                "acknowledged is kept",
                f"{self.host}: {code.name} from {leader}: acknowledged records are gone",
            )
        return -1


class HastyWriter(Client):
    """A producer with acks=1 that stays with a broker until that refuses.

    Attributes:
        deposed_s_max: how long a broker may go on after others were told to lead.
        taken: how many records were.
    """

    def __init__(
        self,
        partition: int,
        seed: int,
        network: Network,
        note: Note,
        nodes: int,
        deposed_s_max: float,
    ) -> None:
        super().__init__(f"hasty{partition}", seed, network, note, nodes)
        self.partition = partition
        self.deposed_s_max = deposed_s_max
        self.taken = 0
        self.observer: Observer | None = None

    async def run(self) -> None:
        HOST.set(self.host)
        leader = self.any_node()
        while not self.is_done:
            batch = bytes(encode_batch([(None, b"", (), SimulatedClock().wall_ms())]))
            request = produce_request(HASTY_TOPIC, batch, partition=self.partition, acks=1)
            asked_at = trio.current_time()
            code = None
            with suppress(NoAnswerError):
                answer = await self.ask(leader, request, 9, produce.Response)
                code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
            if code is ErrorCode.NONE:
                self.taken += 1
                if self.observer is not None:
                    place = (HASTY_TOPIC, self.partition)
                    self.observer.taken(*place, leader, asked_at, self.deposed_s_max)
                await pass_time(self.dice.uniform(0.1, _HASTY_PAUSE_SECONDS_MAX))
                continue
            await self.back_off()
            with suppress(NoAnswerError):
                leader = await self.leader(self.partition, HASTY_TOPIC)


class Reader(Client):
    """Reads a partition from its beginning to its end, again and again where it has to.

    Attributes:
        read: (offset, value) of each record.
    """

    def __init__(self, partition: int, seed: int, network: Network, note: Note, nodes: int) -> None:
        super().__init__(f"reader{partition}", seed, network, note, nodes)
        self.partition = partition
        self.read: list[tuple[int, bytes]] = []
        self.observer: Observer | None = None

    async def run(self) -> None:
        HOST.set(self.host)
        leader, position = self.any_node(), 0
        while not self.is_done:
            request = fetch_request(TOPIC, position, partition=self.partition, max_wait_ms=200)
            try:
                answer = await self.ask(leader, request, 11, fetch.Response)
                one = answer.responses[0].partitions[0]
                if one.error_code == ErrorCode.NONE:
                    if self.observer is not None and one.records:
                        self.observer.read(TOPIC, self.partition, one.records)
                    for record in records_of(one) if one.records else []:
                        if record.offset >= position:
                            assert record.value is not None
                            self.read.append((record.offset, record.value))
                            position = record.offset + 1
                    continue
                self.note(f"{self.host}: {ErrorCode(one.error_code).name} from {leader}")
                await self.back_off()
                leader = await self.leader(self.partition)
            except NoAnswerError:
                await self.back_off()
                with suppress(NoAnswerError):
                    leader = await self.leader(self.partition)


class Committer(Client):
    """Commits rising offsets of a group, and looks whether they stay.

    Attributes:
        committed: the last offset that was acknowledged.
    """

    def __init__(self, seed: int, network: Network, note: Note, nodes: int) -> None:
        super().__init__("committer", seed, network, note, nodes)
        self.committed = 0
        self._unresolved: dict[int, None] = {}

    async def run(self) -> None:
        HOST.set(self.host)
        coordinator = self.any_node()
        while not self.is_done:
            offset = max(self.committed, max(self._unresolved, default=0)) + 1
            self._unresolved[offset] = None
            try:
                if await self._commit(coordinator, offset) is ErrorCode.NONE:
                    self.committed = offset
                    del self._unresolved[offset]
                found = await self._fetch(coordinator)
                # A commit without an answer may still be under way, and arrive after later ones.
                if found not in (None, self.committed) and found not in self._unresolved:
                    raise InvariantViolated(
                        "committed offset is kept",
                        f"offset {found} of a group, {self.committed} was committed",
                    )
                await pass_time(self.dice.uniform(0.0, 0.3))
                if found is None:
                    coordinator = await self.coordinator("g", 0)
            except NoAnswerError:
                await self.back_off()
                coordinator = self.any_node()

    async def _commit(self, coordinator: int, offset: int) -> ErrorCode:
        partition = offset_commit.RequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = offset_commit.Request(
            group_id="g",
            member_id="",
            topics=[offset_commit.RequestTopic(name=TOPIC, partitions=[partition])],
        )
        answer = await self.ask(coordinator, request, 7, offset_commit.Response)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def _fetch(self, coordinator: int) -> int | None:
        topic = offset_fetch.RequestTopic(name=TOPIC, partition_indexes=[0])
        request = offset_fetch.Request(group_id="g", topics=[topic])
        answer = await self.ask(coordinator, request, 5, offset_fetch.Response)
        if answer.error_code != ErrorCode.NONE or not answer.topics:
            return None
        one = answer.topics[0].partitions[0]
        if one.error_code != ErrorCode.NONE:
            return None
        return max(one.committed_offset, 0)
