"""The broker: what it knows (metadata), what it has (logs), and what happens to both.

Handlers get this object; it owns the metadata image, the partitions, the coordinators and the
background work. Everything here runs on one trio event loop; only fsync, compaction, file removal
and start-up go to worker threads.
"""

from __future__ import annotations

import base64
import logging
import random
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import trio

from ..metadata.decision import Decision
from ..metadata.image import RESOURCE_BROKER, MetadataImage
from ..metadata.placement import Placement
from ..metadata.records import MetadataRecord, SettingRecord
from ..metadata.replication_rules import ReplicationRules
from ..metadata.settings import Value, parse_setting
from ..metadata.topic_settings import topic_values
from ..protocol.errors import ErrorCode
from ..protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ..storage.errors import StorageError
from ..storage.log_directory import LogDirectory
from .change_error import ChangeError
from .checkpointer import Checkpointer
from .clock import Clock
from .config import BROKER_SETTINGS, BrokerConfig
from .controller import Controller
from .fetch_sessions import FetchSessionCache
from .flusher import Flusher
from .forwarding import Forwarder
from .groups import GroupService
from .lifecycle import Lifecycle
from .metadata_store import MetadataStore
from .operations import ALLOCATE_PRODUCER_IDS, Operations
from .partition import Partition, PartitionError
from .quorum import Quorum
from .replicas import Replicas
from .strays import settle_strays
from .topology import Topology
from .transactions import TransactionService
from .workers import RunInThread, run_in_worker_thread

if TYPE_CHECKING:
    from .interconnect import Interconnect
    from .rpc import Peers

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_FLUSHES_AT_ONCE = 16
_CREATE_VERSION = 7
_PRODUCER_IDS_SECONDS_MAX = 10.0


class Endpoint(NamedTuple):
    """Where clients find a broker."""

    host: str
    port: int


class Broker:
    """One running broker, or a controller alone (then it has no partitions and serves no client).

    Attributes:
        config: effective settings.
        topology: what this node is in its cluster.
        store: the metadata image and how it follows the quorum's log.
        quorum: this node's part in the metadata quorum.
        controller: decides, while this node leads the quorum.
        forwarder: brings requests to the active controller.
        operations: what brokers ask of the controller.
        lifecycle: registration and heartbeats.
        interconnect: connections between nodes; in a cluster only.
        incarnation: sixteen bytes that are new in each process.
        endpoint: what Metadata tells clients.
        internal_endpoint: where other nodes find this one.
        is_stopping: True once the server drains; waits should end.
        replicas: the partitions that this broker has.
        partitions: every partition that this broker has, by (topic, number).
        topics: state shared by the partitions of a topic, by name.
        partition: finds a partition, see `Replicas.find`.
        run_in_thread: where work runs that blocks.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topology: Topology,
        store: MetadataStore,
        quorum: Quorum,
        directory: LogDirectory,
        clock: Clock,
        rng: random.Random,
        run_in_thread: RunInThread = run_in_worker_thread,
    ) -> None:
        self.config = config
        self.topology = topology
        self.clock = clock
        self.rng = rng
        self.run_in_thread = run_in_thread
        self.store = store
        self.quorum = quorum
        self.directory = directory
        self.incarnation = self.random_id()
        self.endpoint = Endpoint("", 0)
        self.internal_endpoint = Endpoint("", 0)
        self.controller = Controller(self)
        self.forwarder = Forwarder(self)
        self.operations = Operations(self)
        self.lifecycle = Lifecycle(self)
        self.replicas = Replicas(self)
        self.topics = self.replicas.topics
        self.partitions = self.replicas.partitions
        self.partition = self.replicas.find
        self.fetch_sessions = FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots, lambda: rng.getrandbits(31)
        )
        self.flusher = Flusher(run_in_thread)
        self.checkpointer = Checkpointer(directory, run_in_thread)
        self.groups = GroupService(self)
        self.transactions = TransactionService(self)
        self.interconnect: Interconnect | None = None
        if topology.is_clustered:
            from .interconnect import Interconnect

            self.interconnect = Interconnect(self)
            self.interconnect.image_replaced()
        store.follow = self._follow
        store.follow_replaced = self._follow_replaced
        self._last_leader: int | None = None
        self._producer_ids = iter(range(0))
        self.settings_changed = trio.lowlevel.ParkingLot()
        self.is_stopping = False

    @property
    def node_id(self) -> int:
        """This broker's number."""
        return self.config.node_id

    @property
    def image(self) -> MetadataImage:
        """The metadata image; read only, it changes through `change`."""
        return self.store.image

    @property
    def cluster_id(self) -> str:
        """The cluster's id, 22 characters."""
        return self.store.cluster_id

    @property
    def is_alone(self) -> bool:
        """True when this node decides about metadata without asking anybody."""
        return self.topology.is_alone

    @property
    def peers(self) -> Peers:
        """Connections to other nodes; there are none where there is no cluster."""
        assert self.interconnect is not None, "a broker without a cluster has no peers"
        return self.interconnect.peers

    def random_id(self) -> bytes:
        """Sixteen random bytes that are not all zero (which stands for "no id"), for topic ids."""
        return self.rng.randrange(1, 2**128).to_bytes(16, "big")

    def random_uuid(self) -> str:
        """A random text in the form of a uuid, for member ids."""
        return str(uuid.UUID(int=self.rng.getrandbits(128)))

    async def make_durable(self, partition: Partition, offset: int) -> None:
        """Sync a log up to an offset, and only then show readers what it holds.

        Raises:
            StorageError: the disk failed.
        """
        await self.flusher.make_durable(partition.log, offset)
        partition.synced()

    # --- start and end -------------------------------------------------------------------------

    def open_logs(self) -> None:
        """Recover every log and match them with the metadata. Before serving; may block."""
        self.replicas.open_logs()
        if self.is_alone:
            settle_strays(
                self.directory,
                self.store,
                self.node_id,
                {
                    runtime.topic.name: runtime.topic.settings
                    for runtime in (self.groups.runtime, self.transactions.runtime)
                },
                lambda: self.random_id().hex(),
            )
        if not self.topology.is_clustered:
            self.replicas.activate_now()
        self.store.forget_removed()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take part in the cluster and do the background work, until cancelled.

        It has started when the cluster counts on this broker (a controller alone: at once).

        Raises:
            StartError: the internal listener cannot be opened, or the cluster does not want this
                broker.
        """
        # What follows the metadata log ends first: nothing that it starts or stops is gone then.
        partitions = trio.CancelScope(shield=True)
        connections = trio.CancelScope(shield=True)
        async with trio.open_nursery() as nursery:
            try:
                async with trio.open_nursery() as following:
                    if self.interconnect is not None:
                        self.internal_endpoint = Endpoint(*await self.interconnect.listen())
                        await nursery.start(_run_until, connections, self.interconnect.run)
                    await following.start(self._run_quorum)
                    following.start_soon(self.controller.run)
                    if self.topology.is_broker:
                        await nursery.start(_run_until, partitions, self.run_partitions)
                        await following.start(self.lifecycle.run)
                    task_status.started()
            finally:
                partitions.cancel()
                connections.cancel()

    async def run_partitions(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Look after the partitions and what is kept in them, until cancelled."""
        from .maintenance import run_maintenance

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_maintenance, self)
            await self.groups.start(nursery)
            await self.transactions.start(nursery)
            await nursery.start(self.replicas.run)
            task_status.started()

    async def _run_quorum(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        await self.quorum.run(
            send=_send_nothing if self.interconnect is None else self.interconnect.send,
            on_committed=self.store.apply,
            make_snapshot=self.store.make_snapshot,
            load_snapshot=self.store.load_snapshot,
            on_change=self._quorum_changed,
            task_status=task_status,
        )

    def _quorum_changed(self) -> None:
        """What the last leader was asked and has not answered is lost."""
        leader_id, self._last_leader = self._last_leader, self.quorum.leader_id
        if self.interconnect is not None and leader_id not in (None, self._last_leader):
            self.interconnect.leader_lost(leader_id)

    async def flush_all(self, seconds: float) -> None:
        """Sync all logs, several at once, for at most some seconds; what is left stays unsynced."""
        logs = iter([log for log in self.directory.logs.values() if log.is_offline is None])

        async def flush_some() -> None:
            for log in logs:
                try:
                    await self.flusher.make_durable(log, log.log_end_offset)
                except StorageError as error:
                    logger.error("%s", error)

        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                for _ in range(_FLUSHES_AT_ONCE):
                    nursery.start_soon(flush_some)

    def close(self, seconds: float = float("inf")) -> None:
        """Close all logs and write the clean-shutdown marker. May block.

        When it takes longer than ``seconds``, the rest is left to the next start's recovery; with
        0 everything is just let go of (an ephemeral broker's directory is removed anyway).
        """
        deadline = time.monotonic() + seconds
        self.quorum.close()
        if seconds > 0:
            self.lifecycle.note_clean_stop()
        self.directory.close(clean=seconds > 0, may_go_on=lambda: time.monotonic() < deadline)

    # --- metadata ------------------------------------------------------------------------------

    async def _follow(self, records: Sequence[MetadataRecord]) -> None:
        if self.interconnect is not None:
            self.interconnect.follow(records)
        await self.replicas.apply(records)
        if any(isinstance(one, SettingRecord) for one in records):
            self.settings_changed.unpark_all()

    async def _follow_replaced(self) -> None:
        if self.interconnect is not None:
            self.interconnect.image_replaced()
        await self.replicas.image_replaced()
        self.settings_changed.unpark_all()

    async def change(self, decide: Callable[[], Decision[_T]]) -> _T:
        """Change the metadata, where this node is the active controller; see `Controller.change`.

        Raises:
            ChangeError: it is not, or the disk failed.
        """
        return await self.controller.change(decide)

    async def ask_controller(
        self, operation: str, fields: Any, *, timeout_s: float
    ) -> tuple[ErrorCode, Any]:
        """Ask the active controller for one of `operations`; see `Forwarder.operation`."""
        return await self.forwarder.operation(operation, fields, timeout_s=timeout_s)

    async def create_topics(self, topics: list[CreatableTopic]) -> CreateTopicsResponse:
        """Have the controller make topics; they are in the image when it has answered.

        Raises:
            ChangeError: nobody can be asked, or nobody knows what became of it.
        """
        request = CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=False)
        response = await self.forwarder.request(request, _CREATE_VERSION)
        return cast("CreateTopicsResponse", response)

    def placement(self) -> Placement:
        """The brokers that can hold replicas, and the defaults for new topics."""
        return Placement.of(
            self.image,
            self.config.num_partitions,
            self.config.default_replication_factor,
            self.rng.getrandbits(31),
        )

    def replication_rules(self) -> ReplicationRules:
        """What holds for topics on which neither they themselves nor the cluster say anything."""
        config = self.config
        return ReplicationRules(config.min_insync_replicas, config.unclean_leader_election_enable)

    def new_cluster_id(self) -> str:
        """A random id, in the form that Kafka gives them."""
        return new_cluster_id(self.rng)

    def effective_broker_values(self) -> dict[str, Value]:
        """Broker settings by Kafka name: the file's and flags' values under the dynamic ones."""
        values = self.config.values_by_name()
        for name in ("", str(self.node_id)):
            for key, text in self.image.settings.get((RESOURCE_BROKER, name), {}).items():
                # A log that a newer minikafka wrote may set what this one does not know.
                if key in BROKER_SETTINGS:
                    values[key] = parse_setting(BROKER_SETTINGS[key], text)
        return values

    def effective_int(self, name: str) -> int:
        """What one broker setting that is a number is now, without a look at all the others."""
        value = self.config.value_of(name)
        for resource in (str(self.node_id), ""):
            text = self.image.settings.get((RESOURCE_BROKER, resource), {}).get(name)
            if text is not None:
                value = parse_setting(BROKER_SETTINGS[name], text)
                break
        assert isinstance(value, int)
        return value

    def effective_topic_values(self, name: str) -> dict[str, Value]:
        """Topic settings by Kafka name: the topic's own over the broker's."""
        return topic_values(self.image.topic_settings(name), self.effective_broker_values())

    # --- lookups -------------------------------------------------------------------------------

    def topic_name(self, name: str, topic_id: bytes, by_id: bool) -> str:
        """The topic a request means, by name or (newer versions) by id.

        Raises:
            PartitionError: UNKNOWN_TOPIC_ID for an id that no topic has.
        """
        if not by_id:
            return name
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            raise PartitionError(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic.name

    async def next_producer_id(self) -> int:
        """A producer id that no producer of this cluster ever had.

        Raises:
            ChangeError: the controller gives no more of them.
        """
        producer_id = next(self._producer_ids, None)
        while producer_id is None:
            fields = (self.node_id, self.lifecycle.broker_epoch)
            code, result = await self.ask_controller(
                ALLOCATE_PRODUCER_IDS, fields, timeout_s=_PRODUCER_IDS_SECONDS_MAX
            )
            if code != ErrorCode.NONE:
                raise ChangeError(code, f"no producer ids: {result}")
            self._producer_ids = iter(range(*result))
            producer_id = next(self._producer_ids, None)
        return producer_id


def new_cluster_id(rng: random.Random) -> str:
    """Sixteen random bytes as 22 characters."""
    return base64.urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("=")


def _send_nothing(node_id: int, message: object) -> None:
    """A broker that is alone has nobody to talk to."""
    del node_id, message


async def _run_until(
    scope: trio.CancelScope,
    run: Callable[..., Awaitable[None]],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run something until a scope is cancelled."""
    with scope:
        await run(task_status=task_status)
