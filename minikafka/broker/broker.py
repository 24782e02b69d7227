"""The composition root: one node's services, each given what it uses and nothing else.

Only the handlers, the listener and the start-up see a whole `Broker`; a service takes other
services by name and type. `minikafka.broker.lifetime` runs what is built here. Everything happens
on one trio event loop; only fsync, compaction, file removal and start-up go to worker threads.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..coordinator.client_telemetry import ClientTelemetry
from ..metadata.image import MetadataImage
from ..metadata.records import MetadataRecord
from ..metadata.setting_table import BrokerConfig
from ..storage.log_directory import LogDirectory
from .control.controller import Controller
from .control.forwarder import Forwarder
from .control.lifecycle import Lifecycle
from .control.metadata_store import MetadataStore
from .control.operations import Operations
from .control.producer_ids import ProducerIds
from .coordinators.groups import GroupService
from .coordinators.internal_topics import InternalTopics
from .coordinators.markers import MarkerWriter
from .coordinators.share_state import ShareStateService
from .coordinators.telemetry import TelemetryLog
from .coordinators.transactions import TransactionService
from .quorum.quorum import Quorum
from .replicas.checkpointer import Checkpointer
from .replicas.fetch_sessions import FetchSessionCache
from .replicas.flusher import Flusher
from .replicas.inspection import Inspector
from .replicas.maintenance import Maintenance
from .replicas.manager import ReplicaManager
from .rpc import operations
from .settings.effective import EffectiveSettings
from .settings.node import Node
from .settings.topology import Topology
from .shares.partitions import SharePartitionService
from .system.clock import Clock
from .system.randomness import RandomIds
from .system.request_memory import RequestMemory
from .system.workers import RunInThread, run_in_worker_thread

if TYPE_CHECKING:
    from .control.interconnect import Interconnect
    from .rpc.peers import Peers


class Broker:
    """One node: a broker, a controller, or both (a controller alone has no partitions).

    Attributes:
        config: settings from defaults, files and flags; `settings` has what is in force now.
        node: this node's identity.
        store: the metadata image, and how it follows the quorum's log.
        quorum: this node's part in the metadata quorum.
        interconnect: connections between nodes; None where there is no cluster.
        controller: decides, while this node leads the quorum.
        forwarder: brings requests to the active controller.
        lifecycle: registration and heartbeats.
        replicas: gives the partitions of this broker their roles.
        index: finds partitions; `partition`, `partitions` and `topics` are shortcuts into it.
        maintenance: background work on the logs.
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
        self.clock = clock
        self.store = store
        self.quorum = quorum
        self.directory = directory
        self.ids = RandomIds(rng)
        self.node = node = Node(topology, self.ids.topic_id())
        self.settings = EffectiveSettings(config, store)
        self.interconnect = _interconnect(node, store, quorum, directory, rng)
        peers = None if self.interconnect is None else self.interconnect.peers
        self.controller = Controller(node, self.settings, store, quorum, self.ids, peers)
        self.operations = Operations(self.controller, store, self.settings, quorum)
        self.forwarder = Forwarder(node, quorum, self.controller, self.operations, peers)
        self.lifecycle = Lifecycle(
            node, config, store, quorum, directory, clock, self.forwarder, peers
        )
        self._add_partitions(peers, run_in_thread)
        self._add_coordinators(peers)
        store.follow = self._follow
        store.follow_replaced = self._follow_replaced
        if self.interconnect is not None:
            self._serve_nodes(self.interconnect)

    def _add_partitions(self, peers: Peers | None, run_in_thread: RunInThread) -> None:
        self.run_in_thread = run_in_thread
        self.request_memory = RequestMemory(self.config.queued_max_request_bytes)
        self.inspector = Inspector(run_in_thread)
        self.flusher = Flusher(run_in_thread)
        self.checkpointer = Checkpointer(self.directory, run_in_thread)
        self.replicas = ReplicaManager(
            self.node,
            self.settings,
            self.store,
            self.directory,
            clock=self.clock,
            ids=self.ids,
            run_in_thread=run_in_thread,
            flusher=self.flusher,
            forwarder=self.forwarder,
            peers=peers,
        )
        self.lifecycle.on_registered.append(self.replicas.activate)
        self.index = self.replicas.index
        self.topics = self.index.topics
        self.partitions = self.index.partitions
        self.partition = self.index.find_for_client
        self.index.is_cut_off = lambda: self.lifecycle.is_cut_off
        self.fetch_sessions = FetchSessionCache(
            self.config.max_incremental_fetch_session_cache_slots, self.ids.positive_int
        )
        self.maintenance = Maintenance(
            self.node,
            self.settings,
            self.directory,
            self.replicas,
            flusher=self.flusher,
            checkpointer=self.checkpointer,
            clock=self.clock,
            run_in_thread=run_in_thread,
        )

    def _add_coordinators(self, peers: Peers | None) -> None:
        self.telemetry = ClientTelemetry(self.config.telemetry_max_bytes)
        self.producer_ids = ProducerIds(self.node, self.lifecycle, self.forwarder)
        self.internal_topics = InternalTopics(self.store, self.settings, self.forwarder)
        self.telemetry_log = TelemetryLog(
            self.config,
            self.node,
            metadata=self.store,
            settings=self.settings,
            topics=self.internal_topics,
            index=self.index,
            clock=self.clock,
        )
        self.share_state = ShareStateService(
            self.config,
            self.node,
            self.internal_topics,
            metadata=self.store,
            replicas=self.replicas,
            lifecycle=self.lifecycle,
            clock=self.clock,
            make_durable=self.flusher.make_durable,
            peers=peers,
        )
        self.shares = SharePartitionService(
            self.settings,
            metadata=self.store,
            replicas=self.replicas,
            share_state=self.share_state,
            clock=self.clock,
        )
        self.groups = GroupService(
            self.config,
            settings=self.settings,
            metadata=self.store,
            replicas=self.replicas,
            lifecycle=self.lifecycle,
            clock=self.clock,
            ids=self.ids,
            make_durable=self.flusher.make_durable,
            share_state=self.share_state,
        )
        self.markers = MarkerWriter(
            self.replicas, self.groups, self.clock, self.flusher.make_durable, self.store
        )
        self.transactions = TransactionService(
            self.config,
            self.node,
            self.markers,
            self.producer_ids,
            metadata=self.store,
            replicas=self.replicas,
            lifecycle=self.lifecycle,
            clock=self.clock,
            make_durable=self.flusher.make_durable,
            peers=peers,
        )

    @property
    def node_id(self) -> int:
        return self.node.node_id

    @property
    def image(self) -> MetadataImage:
        """The metadata as of the last applied decision; only `Controller.change` changes it."""
        return self.store.image

    def _serve_nodes(self, interconnect: Interconnect) -> None:
        """Let other nodes reach the controller, the coordinators and the partitions."""
        from .coordinators.markers import MarkerServer

        interconnect.image_replaced()
        server, fetches = interconnect.server, self.replicas.server
        assert fetches is not None
        self.operations.register(server)
        self.forwarder.register(server)
        server.register_deferred(operations.CONFIRM_TRANSACTION, self.transactions.serve_confirm)
        server.register_deferred(operations.WRITE_MARKERS, MarkerServer(self.markers).serve)
        server.register_deferred(operations.SHARE_STATE, self.share_state.serve)
        believes = fetches.believes
        server.register_deferred(operations.REPLICA_FETCH, fetches.fetch, believes=believes)
        server.register_one_way(
            operations.REPLICA_FETCH_WAKE, fetches.fetch_wake, believes=believes
        )

    async def _follow(self, records: Sequence[MetadataRecord]) -> None:
        if self.interconnect is not None:
            self.interconnect.follow(records)
        await self.replicas.apply(records)
        self.groups.follow(records)

    async def _follow_replaced(self) -> None:
        if self.interconnect is not None:
            self.interconnect.image_replaced()
        await self.replicas.image_replaced()
        self.groups.image_replaced()


def _interconnect(
    node: Node,
    store: MetadataStore,
    quorum: Quorum,
    directory: LogDirectory,
    rng: random.Random,
) -> Interconnect | None:
    if not node.is_clustered:
        return None
    from .control.interconnect import Interconnect  # a broker without a cluster starts faster

    return Interconnect(node, store, quorum, directory, rng.random)
