"""The composition root: one node's services, each given what it uses and nothing else.

Only the handlers, the listener and the start-up see a whole `Broker`; a service takes other
services by name and type. Services that a broker without groups, transactions and share groups does
not need are built, and their modules imported, when they are first used; in a cluster at the start,
so that a failover does not wait for them. `minikafka.broker.lifetime` runs what is built here.
Everything happens on one trio event loop; only fsync, compaction, file removal and start-up go to
worker threads.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import trio

from ..metadata.image import MetadataImage
from ..metadata.records import ClientQuotaRecord, MetadataRecord
from ..metadata.setting_table import BrokerConfig
from ..storage.log_directory import LogDirectory
from .control.controller import Controller
from .control.first_users import FirstUser
from .control.forwarder import Forwarder
from .control.lifecycle import Lifecycle
from .control.metadata_store import MetadataStore
from .control.operations import Operations
from .control.producer_ids import ProducerIds
from .control.voter_changes import VoterChanges
from .coordinators.internal_topics import (
    InternalTopics,
    offsets_topic,
    share_state_topic,
    transactions_topic,
)
from .quorum.quorum import Quorum
from .replicas.checkpointer import Checkpointer
from .replicas.fetch_sessions import FetchSessionCache
from .replicas.flusher import Flusher
from .replicas.inspection import Inspector
from .replicas.maintenance import Maintenance
from .replicas.manager import ReplicaManager
from .rpc import operations
from .security.client_quotas import ClientQuotas
from .security.internal import UNPROTECTED, InternalSecurity
from .settings.effective import EffectiveSettings
from .settings.node import Node
from .settings.topology import Topology
from .system.clock import Clock
from .system.randomness import RandomIds
from .system.request_memory import RequestMemory
from .system.workers import RunInThread, run_in_worker_thread

if TYPE_CHECKING:
    from ..coordinator.client_telemetry import ClientTelemetry
    from .control.interconnect import Interconnect
    from .coordinators.groups import GroupService
    from .coordinators.markers import MarkerWriter
    from .coordinators.share_state import ShareStateService
    from .coordinators.telemetry import TelemetryLog
    from .coordinators.transactions import TransactionService
    from .rpc.peers import Peers
    from .security.authorization import Authorization
    from .security.sasl import SaslService
    from .shares.dead_letters import DeadLetterService
    from .shares.partition_ends import PartitionEndsService
    from .shares.partitions import SharePartitionService


class Broker:
    """One node: a broker, a controller, or both (a controller alone has no partitions).

    Attributes:
        config: settings from defaults, files and flags; `settings` has what is in force now.
        node: this node's identity.
        store: the metadata image, and how it follows the quorum's log.
        quorum: this node's part in the metadata quorum.
        interconnect: connections between nodes; None where there is no cluster.
        controller: decides, while this node leads the quorum.
        voter_changes: changes who votes, while this node leads the quorum.
        forwarder: brings requests to the active controller.
        lifecycle: registration and heartbeats.
        replicas: gives the partitions of this broker their roles.
        index: finds partitions; `partition`, `partitions` and `topics` are shortcuts into it.
        maintenance: background work on the logs.
        first_users: are created when the node starts, if they do not exist.
        client_quotas: what clients may use; None while nothing is limited.
        authorization: what clients may do; None without an authorizer, when they may do everything.
    """

    first_users: Sequence[FirstUser] = ()

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
        internal: InternalSecurity = UNPROTECTED,
    ) -> None:
        self.config = config
        self.authorization: Authorization | None = None
        self.clock = clock
        self.store = store
        self.quorum = quorum
        self.directory = directory
        self.ids = RandomIds(rng)
        self.node = node = Node(topology, self.ids.topic_id())
        self.settings = EffectiveSettings(config, store)
        self.interconnect = _interconnect(node, store, quorum, directory, rng, internal)
        peers = None if self.interconnect is None else self.interconnect.peers
        self.controller = Controller(node, self.settings, store, quorum, self.ids, peers)
        self.voter_changes = VoterChanges(node, quorum, peers)
        self.operations = Operations(self.controller, store, self.settings, quorum)
        self.forwarder = Forwarder(node, quorum, self.controller, self.operations, peers)
        self.lifecycle = Lifecycle(
            node, config, store, quorum, directory, clock, self.forwarder, peers
        )
        self._peers = peers
        self._nursery: trio.Nursery | None = None
        self._to_start: list[Callable[[trio.Nursery], None]] = []
        self._groups: GroupService | None = None
        self._add_partitions(peers, run_in_thread)
        self.producer_ids = ProducerIds(self.node, self.lifecycle, self.forwarder)
        self.internal_topics = InternalTopics(self.store, self.settings, self.forwarder)
        self._watch_coordinators()
        self.client_quotas: ClientQuotas | None = None
        self._follow_quotas()
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

    def _watch_coordinators(self) -> None:
        """Coordinators are built when this broker first leads a partition of their topics."""
        watch, config = self.replicas.watch_topic, self.config
        for topic, runtime in (
            (offsets_topic(config), lambda: self.groups.runtime),
            (transactions_topic(config), lambda: self.transactions.runtime),
            (share_state_topic(config), lambda: self.share_state.runtime),
        ):
            watch(topic.name, runtime, topic.settings)

    def start_services(self, nursery: trio.Nursery) -> None:
        """Start the services that have been built; those that are built later start then."""
        self._nursery = nursery
        for start in self._to_start:
            start(nursery)
        self._to_start.clear()

    def _when_started(self, start: Callable[[trio.Nursery], None]) -> None:
        if self._nursery is None:
            self._to_start.append(start)
        else:
            start(self._nursery)

    # --- services that are built when they are first used -----------------------------------------

    @cached_property
    def sasl(self) -> SaslService:
        """How clients log in on each listener that asks them to."""
        from .security.sasl import SaslService

        return SaslService(self.config, self.store, self.clock)

    @cached_property
    def telemetry(self) -> ClientTelemetry:
        """What clients push of their metrics."""
        from ..coordinator.client_telemetry import ClientTelemetry

        return ClientTelemetry(self.config.telemetry_max_bytes)

    @cached_property
    def telemetry_log(self) -> TelemetryLog:
        """Writes what clients push."""
        from .coordinators.telemetry import TelemetryLog

        return TelemetryLog(
            self.config,
            self.node,
            metadata=self.store,
            settings=self.settings,
            topics=self.internal_topics,
            index=self.index,
            clock=self.clock,
        )

    @cached_property
    def share_state(self) -> ShareStateService:
        """The share coordinator."""
        from .coordinators.share_state import ShareStateService

        service = ShareStateService(
            self.config,
            self.node,
            self.internal_topics,
            metadata=self.store,
            replicas=self.replicas,
            lifecycle=self.lifecycle,
            clock=self.clock,
            make_durable=self.flusher.make_durable,
            peers=self._peers,
        )
        self._when_started(service.start)
        return service

    @cached_property
    def partition_ends(self) -> PartitionEndsService:
        """Where partitions end that other brokers lead."""
        from .shares.partition_ends import PartitionEndsService

        return PartitionEndsService(self.node, self.store, self.index, self._peers)

    @cached_property
    def groups(self) -> GroupService:
        """The group coordinator."""
        from .coordinators.groups import GroupService
        from .coordinators.streams_topics import StreamsTopics

        service = GroupService(
            self.config,
            settings=self.settings,
            metadata=self.store,
            replicas=self.replicas,
            lifecycle=self.lifecycle,
            clock=self.clock,
            ids=self.ids,
            make_durable=self.flusher.make_durable,
            share_state=self.share_state,
            streams_topics=StreamsTopics(self.forwarder),
        )
        service.authorization = self.authorization
        self._groups = service
        self._when_started(service.runtime.start)
        return service

    @cached_property
    def markers(self) -> MarkerWriter:
        """Writes transaction markers to partitions of this broker."""
        from .coordinators.markers import MarkerWriter

        return MarkerWriter(
            self.replicas, self.groups, self.clock, self.flusher.make_durable, self.store
        )

    @cached_property
    def transactions(self) -> TransactionService:
        """The transaction coordinator."""
        from .coordinators.transactions import TransactionService

        service = TransactionService(
            self.config,
            self.node,
            self.markers,
            self.producer_ids,
            metadata=self.store,
            replicas=self.replicas,
            lifecycle=self.lifecycle,
            clock=self.clock,
            make_durable=self.flusher.make_durable,
            peers=self._peers,
        )
        self._when_started(service.start)
        return service

    @cached_property
    def dead_letters(self) -> DeadLetterService:
        """Writes what share groups give up."""
        from .shares.dead_letters import DeadLetterService

        service = DeadLetterService(
            self.settings,
            self.node,
            metadata=self.store,
            index=self.index,
            forwarder=self.forwarder,
            flusher=self.flusher,
            clock=self.clock,
            run_in_thread=self.run_in_thread,
            peers=self._peers,
        )
        self._when_started(service.start)
        return service

    @cached_property
    def shares(self) -> SharePartitionService:
        """The share-partitions of the partitions that this broker leads."""
        from .shares.partitions import SharePartitionService

        service = SharePartitionService(
            self.settings,
            metadata=self.store,
            replicas=self.replicas,
            share_state=self.share_state,
            dead_letters=self.dead_letters,
            clock=self.clock,
        )
        self._when_started(service.start)
        return service

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
        server.register_deferred(operations.APPEND_DEAD_LETTERS, self.dead_letters.serve)
        server.register_deferred(operations.PARTITION_ENDS, self.partition_ends.serve)
        believes = fetches.believes
        server.register_deferred(operations.REPLICA_FETCH, fetches.fetch, believes=believes)
        server.register_one_way(
            operations.REPLICA_FETCH_WAKE, fetches.fetch_wake, believes=believes
        )

    async def _follow(self, records: Sequence[MetadataRecord]) -> None:
        if self.interconnect is not None:
            self.interconnect.follow(records)
        if any(type(record) is ClientQuotaRecord for record in records):
            self._follow_quotas()
        await self.replicas.apply(records)
        if self._groups is not None:
            self._groups.follow(records)

    async def _follow_replaced(self) -> None:
        if self.interconnect is not None:
            self.interconnect.image_replaced()
        self._follow_quotas()
        await self.replicas.image_replaced()
        if self._groups is not None:
            self._groups.image_replaced()

    def _follow_quotas(self) -> None:
        """Quotas in the image have changed; without any, requests are not even counted."""
        quotas = self.image.client_quotas
        if not quotas:
            self.client_quotas = None
        elif self.client_quotas is None:
            self.client_quotas = ClientQuotas(quotas, self.config, self.clock.monotonic)
        else:
            self.client_quotas.replace(quotas)


def _interconnect(
    node: Node,
    store: MetadataStore,
    quorum: Quorum,
    directory: LogDirectory,
    rng: random.Random,
    internal: InternalSecurity,
) -> Interconnect | None:
    if not node.is_clustered:
        return None
    from .control.interconnect import Interconnect  # a broker without a cluster starts faster

    return Interconnect(node, store, quorum, directory, rng.random, internal)
