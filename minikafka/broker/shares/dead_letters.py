"""Dead letters: what share groups have given up, in topics that somebody looks at (KIP-1191).

A dead letter is a record with headers that say which record of which group it is about, and why;
with ``errors.deadletterqueue.copy.record.enable`` it has that record's key and value. The letters
about partition P go to partition P modulo their topic's count, wherever that is led: brokers hand
each other batches over minikafka's own protocol, where Kafka's send Produce requests.

A letter is acknowledged by all in-sync replicas. Where the topic cannot be used, or stays without a
leader for too long, the log says so and there is no letter: as in Kafka, what is given up must not
hold up its group forever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from ...coordinator.share.share_partition import DeadLetter
from ...metadata.records import NO_LEADER
from ...metadata.topics import INTERNAL_TOPICS
from ...protocol.errors import ErrorCode
from ...protocol.messages import create_topics as create_topics_api
from ...protocol.records import CorruptBatchError, decode_records, encode_batch, iter_batches
from ...storage.errors import LogError
from ..control.forwarder import Forwarder
from ..control.metadata_store import MetadataStore
from ..control.topic_creation import create_topics
from ..coordinators.runtime import CommitEvent
from ..quorum.change_error import ChangeError
from ..replicas.flusher import Flusher
from ..replicas.index import PartitionIndex
from ..replicas.partition import Partition, PartitionError
from ..rpc import operations
from ..rpc.codec import Respond
from ..rpc.errors import RpcError, RpcFailure
from ..settings.effective import EffectiveSettings
from ..settings.node import Node
from ..system.clock import Clock
from ..system.workers import RunInThread

if TYPE_CHECKING:
    from ..rpc.peers import Peers

logger = logging.getLogger(__name__)

REJECTED: Final = b"Offset rejected by client."
DELIVERED_TOO_OFTEN: Final = b"Offset delivery count exceeded the threshold."

_ENABLED: Final = "errors.deadletterqueue.group.enable"
_PATIENCE_SECONDS: Final = 60.0
"""How long a batch is sent again while its partition has no leader, or too few replicas."""
_COMMIT_SECONDS: Final = 20.0
_FIRST_BACKOFF_SECONDS: Final = 0.05
_BACKOFF_SECONDS_MAX: Final = 5.0
_READ_BYTES: Final = 1024 * 1024
_LETTERS_PER_BATCH_MAX: Final = 500
_RECORD_OVERHEAD_BYTES: Final = 100
_BATCHES_OF_OTHERS_MAX: Final = 256
_VERSION: Final = 13
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)

_Headers = tuple[tuple[str, bytes], ...]
_Letter = tuple[bytes | None, bytes | None, _Headers, int]
_Copies = dict[int, tuple[bytes | None, bytes | None]]
"""Key and value by offset."""


class NoDeadLetterError(Exception):
    """Why a dead letter cannot be written."""


class _Source(NamedTuple):
    """What letters are about."""

    group_id: str
    partition: Partition

    def letters(
        self, about: DeadLetter, offsets: range, copies: _Copies, now_ms: int
    ) -> list[_Letter]:
        """Kafka's dead letters about some of the offsets."""
        reason = REJECTED if about.is_rejected else DELIVERED_TOO_OFTEN
        return [
            (
                *copies.get(offset, (None, None)),
                (
                    ("__dlq.errors.topic", self.partition.topic.name.encode()),
                    ("__dlq.errors.partition", str(self.partition.index).encode()),
                    ("__dlq.errors.offset", str(offset).encode()),
                    ("__dlq.errors.group", self.group_id.encode()),
                    ("__dlq.errors.delivery.count", str(about.delivery_count).encode()),
                    ("__dlq.errors.message", reason),
                ),
                now_ms,
            )
            for offset in offsets
        ]


class DeadLetterService:
    """Writes dead letters of the share-partitions that this broker runs, and those of others."""

    def __init__(
        self,
        settings: EffectiveSettings,
        node: Node,
        *,
        metadata: MetadataStore,
        index: PartitionIndex,
        forwarder: Forwarder,
        flusher: Flusher,
        clock: Clock,
        run_in_thread: RunInThread,
        peers: Peers | None,
    ) -> None:
        self._settings = settings
        self._node = node
        self._metadata = metadata
        self._index = index
        self._forwarder = forwarder
        self._flusher = flusher
        self._clock = clock
        self._run_in_thread = run_in_thread
        self._peers = peers
        self._batches_of_others = 0
        self._nursery: trio.Nursery | None = None

    def start(self, nursery: trio.Nursery) -> None:
        """Begin to serve other brokers."""
        self._nursery = nursery

    def topic_of(self, group_id: str) -> str:
        """The topic for the dead letters of a group; empty if it has none."""
        return str(self._settings.group_value(group_id, "errors.deadletterqueue.topic.name"))

    async def write(
        self, group_id: str, partition: Partition, letters: Sequence[DeadLetter]
    ) -> None:
        """Write letters about records of a partition that this broker leads.

        When it returns they are written, or the log of this broker says why they cannot be.
        """
        source = _Source(group_id, partition)
        waiting: list[_Letter] = []
        try:
            size_bytes = 0
            for about in letters:
                position = about.first_offset
                while position <= about.last_offset:
                    offsets, copies = await self._copies(source, position, about.last_offset)
                    position = offsets.stop
                    found = source.letters(about, offsets, copies, self._clock.wall_ms())
                    size_bytes += sum(map(_size_bytes_max, found))
                    waiting += found
                    if size_bytes > _READ_BYTES or len(waiting) >= _LETTERS_PER_BATCH_MAX:
                        await self._send_all(source, waiting)
                        waiting, size_bytes = [], 0
            await self._send_all(source, waiting)
        except NoDeadLetterError as error:
            ranges = ", ".join(f"{one.first_offset} to {one.last_offset}" for one in letters)
            logger.error(
                "share group %s gives up offsets %s of %r without all of their dead letters: %s",
                *(group_id, ranges, partition, error),
            )

    # --- what letters say ------------------------------------------------------------------------

    async def _copies(self, source: _Source, first: int, last: int) -> tuple[range, _Copies]:
        """As many of the offsets as can be read at once, and their keys and values."""
        name = "errors.deadletterqueue.copy.record.enable"
        if not self._settings.group_value(source.group_id, name):
            return range(first, min(last + 1, first + _LETTERS_PER_BATCH_MAX)), {}
        log = source.partition.log
        try:
            read = log.read(
                first, size_bytes_max=_READ_BYTES, upper_bound_offset=log.high_watermark
            )
            if read.records is None:
                return range(first, last + 1), {}
            stop = max(first + 1, min(last + 1, read.next_offset))
            wanted = range(first, stop)
            copies = await self._run_in_thread(
                partial(_key_and_value_of, read.records.read, wanted)
            )
        except (LogError, OSError, CorruptBatchError) as error:
            logger.warning("%r: no copies for the dead letters: %s", source.partition, error)
            return range(first, last + 1), {}
        return wanted, copies

    # --- where they go ---------------------------------------------------------------------------

    async def _send_all(self, source: _Source, letters: Sequence[_Letter]) -> None:
        if not letters:
            return
        topic = await self._ensure_topic(source.group_id)
        values = self._settings.topic_values(topic)
        size_bytes_max = values["max.message.bytes"]
        assert isinstance(size_bytes_max, int)
        if any(one[0] is None for one in letters) and "compact" in str(values["cleanup.policy"]):
            raise NoDeadLetterError(f"{topic} is compacted, and some of the letters have no key")
        for some in _batches(letters, size_bytes_max):
            batch = await self._run_in_thread(partial(_encode, some))
            await self._send(source, batch)

    async def _send(self, source: _Source, batch: bytes) -> None:
        until = self._clock.monotonic() + _PATIENCE_SECONDS
        backoff = _FIRST_BACKOFF_SECONDS
        while True:
            topic = await self._ensure_topic(source.group_id)
            code = await self._send_once(topic, source.partition.index, batch)
            if code is ErrorCode.NONE:
                return
            if code not in _RETRIABLE or self._clock.monotonic() + backoff > until:
                raise NoDeadLetterError(f"{topic} does not take them: {code.name}")
            await trio.sleep(backoff)
            backoff = min(2 * backoff, _BACKOFF_SECONDS_MAX)

    async def _ensure_topic(self, group_id: str) -> str:
        """The topic for the letters of a group, which exists when this returns.

        Raises:
            NoDeadLetterError: it must not be used, or cannot be created.
        """
        topic = self.topic_of(group_id)
        prefix = self._settings.text("errors.deadletterqueue.topic.name.prefix")
        if not topic:
            raise NoDeadLetterError("the group has no topic for them any longer")
        if topic.startswith("__") or topic in INTERNAL_TOPICS or not topic.startswith(prefix):
            raise NoDeadLetterError(
                f"the name of their topic, {topic}, must begin with {prefix!r}, which is what "
                "errors.deadletterqueue.topic.name.prefix says, and not with __"
            )
        if topic in self._metadata.image.topics:
            if not self._settings.topic_values(topic)[_ENABLED]:
                raise NoDeadLetterError(f"{topic} does not have {_ENABLED}=true")
            return topic
        if not self._settings.boolean("errors.deadletterqueue.auto.create.topics.enable"):
            raise NoDeadLetterError(
                f"there is no topic {topic}, and errors.deadletterqueue.auto.create.topics.enable "
                "is false"
            )
        await self._create(topic)
        return topic

    async def _create(self, name: str) -> None:
        config = create_topics_api.CreatableTopicConfig
        wanted = create_topics_api.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[],
            configs=[
                config(name=_ENABLED, value="true"),
                config(name="message.timestamp.type", value="CreateTime"),
            ],
        )
        try:
            (created,) = (await create_topics(self._forwarder, [wanted])).topics
        except ChangeError as error:
            logger.info("cannot create %s now: %s", name, error)
            return
        if created.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise NoDeadLetterError(f"{name} cannot be created: {created.error_message}")

    async def _send_once(self, name: str, number: int, batch: bytes) -> ErrorCode:
        topic = self._metadata.image.topics.get(name)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        number %= len(topic.partitions)
        leader = topic.partitions[number].leader
        if leader == self._node.node_id:
            return await self._append(name, number, batch)
        if leader == NO_LEADER or self._peers is None:
            return ErrorCode.LEADER_NOT_AVAILABLE
        try:
            reply = await self._peers.client(leader).call(
                operations.APPEND_DEAD_LETTERS,
                operations.AppendDeadLetters(topic.topic_id, number),
                [batch],
                timeout_s=_COMMIT_SECONDS + 1,
            )
        except RpcError as error:
            logger.info("node %d did not take dead letters: %s", leader, error)
            return ErrorCode.REQUEST_TIMED_OUT
        return reply.message.error_code

    # --- the leader of their partition -----------------------------------------------------------

    async def _append(self, topic: str, number: int, batch: bytes | memoryview) -> ErrorCode:
        """Append a batch, and wait until it is on all in-sync replicas."""
        try:
            partition = self._index.find_for_client(topic, number)
            partition.check_in_sync()
            if len(batch) > partition.log.config.max_message_bytes:
                return ErrorCode.MESSAGE_TOO_LARGE
            now_ms = self._clock.wall_ms()
            partition.append(batch, now_ms=now_ms, version=_VERSION, from_client=False)
            end_offset = partition.log.log_end_offset
            if partition.topic.is_fsync_acked:
                await self._flusher.make_durable(partition, end_offset)
        except (PartitionError, LogError) as error:
            return ErrorCode(error.error_code)
        if partition.log.high_watermark >= end_offset:
            return ErrorCode.NONE
        committed = CommitEvent()
        partition.wait_for_commit(committed, end_offset)
        with trio.move_on_after(_COMMIT_SECONDS):
            await committed.event.wait()
            return committed.error_code
        partition.commits.forget(committed)
        return ErrorCode.REQUEST_TIMED_OUT

    def serve(
        self,
        node_id: int,
        request: operations.AppendDeadLetters,
        attachments: Sequence[memoryview],
        respond: Respond[operations.DeadLettersAppended],
    ) -> None:
        """Append a batch of a node that has given up records.

        Raises:
            RpcFailure: too many are waiting, or there is no batch.
        """
        if self._batches_of_others >= _BATCHES_OF_OTHERS_MAX or self._nursery is None:
            raise RpcFailure("Busy", f"{self._batches_of_others} batches of dead letters wait")
        if len(attachments) != 1:
            raise RpcFailure("Malformed", f"node {node_id} sent {len(attachments)} batches, not 1")
        self._batches_of_others += 1
        self._nursery.start_soon(self._serve, request, bytes(attachments[0]), respond)

    async def _serve(
        self,
        request: operations.AppendDeadLetters,
        batch: bytes,
        respond: Callable[[operations.DeadLettersAppended, Sequence[memoryview]], None],
    ) -> None:
        try:
            topic = self._metadata.image.topics_by_id.get(request.topic_id)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if topic is not None:
                code = await self._append(topic.name, request.partition, batch)
        finally:
            self._batches_of_others -= 1
        respond(operations.DeadLettersAppended(code), ())


def _key_and_value_of(read: Callable[[], bytes], wanted: range) -> _Copies:
    content = read()
    return {
        record.offset: (record.key, record.value)
        for position, _ in iter_batches(content)
        for record in decode_records(content, position)
        if record.offset in wanted
    }


def _size_bytes_max(letter: _Letter) -> int:
    key, value, headers, _ = letter
    size = _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    return size + sum(len(name) + len(text) for name, text in headers)


def _batches(letters: Sequence[_Letter], size_bytes_max: int) -> Iterator[list[_Letter]]:
    """Letters for batches that the topic takes; one that is too large alone, to be refused."""
    batch: list[_Letter] = []
    size_bytes = 0
    for letter in letters:
        size = _size_bytes_max(letter)
        if batch and size_bytes + size > size_bytes_max:
            yield batch
            batch, size_bytes = [], 0
        batch.append(letter)
        size_bytes += size
    if batch:
        yield batch


def _encode(letters: Sequence[_Letter]) -> bytes:
    return bytes(encode_batch(letters))
