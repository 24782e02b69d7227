"""The partitions that this broker has: opened, given roles, and removed as the metadata says.

`ReplicaManager.apply` follows the metadata log: it is called with the records of every decision, in
order, after the image has replayed them. It creates missing logs, deletes those of removed topics
and of partitions that have moved to other brokers, and makes every partition lead or follow. What
fails for one log does not stop the others.

A broker takes no role before `activate`: its metadata may be long out of date when it starts, and
another broker may lead by now. Until then its logs are only opened, and nothing is deleted or
created. A broker without a cluster has missed no decision, so `open_logs` gives it its roles.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple, Protocol

import trio

from ...metadata.image import RESOURCE_TOPIC, TopicImage
from ...metadata.records import (
    NO_LEADER,
    BrokerChangeRecord,
    BrokerRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    SettingRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from ...metadata.replication_rules import ReplicationRules, rules_of_topic
from ...metadata.topic_settings import topic_values
from ...replication import EligibleBrokers, ProposeIsr
from ...storage.errors import StorageError
from ...storage.log_directory import LogDirectory
from ..control.metadata_store import MetadataStore
from ..settings.effective import EffectiveSettings
from ..settings.node import Node
from ..system.clock import Clock
from ..system.randomness import RandomIds
from ..system.workers import RunInThread
from .flusher import Flusher
from .index import PartitionIndex, PartitionKey
from .isr_proposals import IsrProposals
from .leader_timers import LeaderTimers
from .partition import Partition
from .racks import is_rack_aware
from .strays import settle_strays
from .throttle import throttled_rate
from .topic_state import TopicState

if TYPE_CHECKING:
    from ..control.forwarder import Forwarder
    from ..rpc.peers import Peers
    from .fetch_server import FetchServer
    from .fetcher import ReplicaFetchers

logger = logging.getLogger(__name__)

_VALIDATE_RECORDS = "minikafka.validate.records"
_STEPS_PER_CHECKPOINT = 8
_TURN_SECONDS = 0.01
"""Steps that each make, remove or reconfigure one log; the slow ones take about a millisecond."""


class LeadershipListener(Protocol):
    """Keeps its state in the partitions of one topic that this broker leads."""

    def lead(self, partition: Partition) -> None:
        """This broker has become the leader of a partition, or its log was recovered."""
        ...

    def resign(self, number: int) -> None:
        """This broker does not lead a partition any more."""
        ...


class _InternalTopic(NamedTuple):
    listener: Callable[[], LeadershipListener]
    settings: Mapping[str, str]


class ReplicaManager:
    """Every partition that this broker has.

    Attributes:
        index: finds them.
        brokers: which brokers may be in an ISR.
        frozen: partitions that are being handed over to other leaders.
        lag_time_max_s: replica.lag.time.max.ms.
        is_active: partitions have their roles.
        is_rack_aware: consumers are sent to replicas in their rack (KIP-392), so followers get
            high watermarks immediately.
        is_retiring: this broker wants to stop and hands over what it leads.
        server: answers followers; in a cluster only.
        follower_batch: `with` it, followers get what is appended inside as soon as the block ends;
            nothing may be awaited in it.
        topic_removed: called with the names of removed topics.
        settings_changed: unparked when dynamic settings have changed.
    """

    def __init__(
        self,
        node: Node,
        settings: EffectiveSettings,
        metadata: MetadataStore,
        directory: LogDirectory,
        *,
        clock: Clock,
        ids: RandomIds,
        run_in_thread: RunInThread,
        flusher: Flusher,
        forwarder: Forwarder,
        peers: Peers | None,
    ) -> None:
        """Begin; ``peers`` are the connections to other nodes of a cluster."""
        config = settings.config
        self.node_id = node.node_id
        self.index = PartitionIndex(node, metadata, directory)
        self.brokers = EligibleBrokers({})
        self.frozen: dict[Partition, None] = {}
        self.lag_time_max_s = config.replica_lag_time_max_ms / 1000
        self.is_active = False
        self.is_retiring = False
        self.is_rack_aware = is_rack_aware(config.replica_selector_class)
        self.now = clock.monotonic
        self.follower_batch: AbstractContextManager[None] = nullcontext()
        self.topic_removed: list[Callable[[str], None]] = []
        self.settings_changed = trio.lowlevel.ParkingLot()
        self.server: FetchServer | None = None
        self._fetchers: ReplicaFetchers | None = None
        self._node = node
        self._settings = settings
        self._metadata = metadata
        self._directory = directory
        self._clock = clock
        self._ids = ids
        self._run_in_thread = run_in_thread
        self._forwarder = forwarder
        self._isr_proposals = IsrProposals(node, forwarder)
        self._leader_timers = LeaderTimers(
            self.index.partitions, self.lag_time_max_s, clock.monotonic
        )
        self._internal_topics: dict[str, _InternalTopic] = {}
        self._lock = trio.Lock()
        self._steps = 0
        self._turn_ends = float("inf")
        if peers is not None:  # a broker without a cluster starts sooner without these
            from .fetch_server import FetchServer
            from .fetcher import ReplicaFetchers

            self._fetchers = ReplicaFetchers(
                node, config, metadata, peers, flusher, clock=clock, rng=ids.rng
            )
            self.server = FetchServer(
                node, metadata, self.index, config.leader_replication_throttled_rate
            )
            self.follower_batch = self.server.follower_batch

    def watch_topic(
        self, name: str, listener: Callable[[], LeadershipListener], settings: Mapping[str, str]
    ) -> None:
        """Notify a coordinator of the partitions of its topic that this broker leads.

        To be called before `open_logs`. ``listener`` is called when there is something to notify
        of. ``settings`` are those of the topic if it has to be restored because the metadata log
        has lost it.
        """
        self._internal_topics[name] = _InternalTopic(listener, settings)

    # --- start ---------------------------------------------------------------------------------

    def open_logs(self) -> None:
        """Recover every log, before serving; may block, and needs no event loop.

        If this node is the whole quorum it also decides about logs that the metadata does not know.
        Partitions get their roles here in a broker without a cluster, otherwise in `activate`.
        """
        node = self._node
        for topic in self._metadata.image.topics.values():
            self._topic_state(topic.name, topic.topic_id)
        default = TopicState(
            "", b"", self._settings.topic_values(""), producer_id_expiration_ms=1
        ).log_config
        topics = self.index.topics
        self._directory.open_all(
            lambda topic: topics[topic].log_config if topic in topics else default,
            now_ms=self._clock.wall_ms(),
            topic_id_for=self._topic_id_for,
        )
        if node.is_alone:
            restored = {name: one.settings for name, one in self._internal_topics.items()}
            settle_strays(
                self._directory, self._metadata, self.node_id, restored, self._unique_suffix
            )
        if not node.is_clustered:
            self._activate_now()
        self._metadata.forget_removed()

    def _topic_id_for(self, name: str, number: int) -> bytes | None:
        topic = self._metadata.image.topics.get(name)
        return topic.topic_id if topic is not None and number < len(topic.partitions) else None

    def _unique_suffix(self) -> str:
        return self._ids.topic_id().hex()

    def _activate_now(self) -> None:
        """Give every partition its role; without an event loop there is no monotonic clock."""
        self.is_active = True
        self.now = lambda: 0.0
        self._find_eligible()
        for topic in self._metadata.image.topics.values():
            self._topic_state(topic.name, topic.topic_id)
            for image in topic.partitions:
                self._reconcile(topic, image)
        self.now = self._clock.monotonic

    async def activate(self, broker_epoch: int) -> None:
        """Give every partition its role: the image holds this broker's registration.

        Logs that belong to no topic any more, or not to this broker, are deleted: the metadata log
        is replicated and has lost nothing. Called again after another registration. In a broker
        without a cluster partitions have their roles already.
        """
        async with self._lock:
            self._node.broker_epoch = broker_epoch
            self.is_active = True
            if self._node.is_clustered:
                await self._apply_all()

    def propose_isr(self, partition: Partition, proposal: ProposeIsr) -> None:
        """Send a proposal to the active controller."""
        self._isr_proposals.propose(partition, proposal)
        self.watch(partition)

    def watch(self, partition: Partition) -> None:
        """Call `Partition.expire` at the leader's deadline."""
        self._leader_timers.add(partition)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Fetch, answer followers, propose ISR changes and run timers, until cancelled."""
        async with trio.open_nursery() as nursery:
            if self._fetchers is not None and self.server is not None:
                from .disk_failures import DiskFailures

                await nursery.start(self._fetchers.run)
                nursery.start_soon(self.server.run)
                failures = DiskFailures(self._node, self._metadata, self.index, self._forwarder)
                nursery.start_soon(failures.run)
            nursery.start_soon(self._isr_proposals.run)
            nursery.start_soon(self._leader_timers.run)
            task_status.started()

    # --- following the metadata log ------------------------------------------------------------

    async def apply(self, records: Sequence[MetadataRecord]) -> None:
        """Do to the partitions what records say; the image has replayed them."""
        if self.is_active:
            async with self._lock:
                await self._apply(records)

    async def image_replaced(self) -> None:
        """Follow an image that was loaded from a snapshot."""
        if self.is_active:
            async with self._lock:
                await self._apply_all()

    async def _apply(self, records: Sequence[MetadataRecord]) -> None:
        touched: dict[bytes, set[int]] = {}
        removed: dict[bytes, None] = {}
        changed: dict[str, None] = {}
        are_brokers_changed = are_settings_changed = False
        self._turn_ends = self._clock.monotonic() + _TURN_SECONDS
        for record in records:
            match record:
                case SettingRecord(resource_type=kind, resource_name=name):
                    are_settings_changed = True
                    changed |= (
                        {name: None} if kind == RESOURCE_TOPIC else dict.fromkeys(self.index.topics)
                    )
                case RemoveTopicRecord(topic_id=topic_id):
                    removed[topic_id] = None
                case TopicRecord(topic_id=topic_id):
                    touched.setdefault(topic_id, set())
                case PartitionRecord(topic_id=topic_id, partition=number):
                    touched.setdefault(topic_id, set()).add(number)
                case BrokerRecord() | BrokerChangeRecord() | UnregisterBrokerRecord():
                    are_brokers_changed = True
                case _:
                    pass
        eligible = self._find_eligible() if are_brokers_changed else set[int]()
        if are_settings_changed:
            await self._reconfigure(changed)
        if removed:
            await self._remove_topics(removed)
        for topic_id, numbers in touched.items():
            topic = self._metadata.image.topics_by_id.get(topic_id)
            if topic is not None:
                await self._open_topic(topic, sorted(numbers))
        if eligible:
            await self._eligibility_changed(eligible)
        if self.server is not None:
            self.server.metadata_changed()

    async def _apply_all(self) -> None:
        """Compare everything with the image."""
        image, topics = self._metadata.image, self.index.topics
        self._turn_ends = self._clock.monotonic() + _TURN_SECONDS
        eligible = self._find_eligible()
        await self._remove_topics(
            {one.topic_id for one in topics.values()} - image.topics_by_id.keys()
        )
        await self._delete_strays()
        await self._reconfigure(list(topics))
        for topic in list(image.topics.values()):
            await self._open_topic(topic, range(len(topic.partitions)))
        await self._eligibility_changed(eligible)
        if self.server is not None:
            self.server.metadata_changed()

    async def _delete_strays(self) -> None:
        """Delete the logs that belong to no topic, or not to this broker."""
        image = self._metadata.image
        for key, topic_id in list(self._directory.topic_ids.items()):
            partition = image.partition(topic_id, key[1])
            if partition is None or self.node_id not in partition.replicas:
                logger.warning("%s-%d does not belong to this broker any more; deleting it", *key)
                self._remove(key)
                await self._let_others_run()

    async def _let_others_run(self) -> None:
        """Called after each step of long work: lets other tasks run every few steps.

        A step makes or removes files, which takes a slow disk milliseconds instead of microseconds.
        """
        self._steps += 1
        if self._steps % _STEPS_PER_CHECKPOINT == 0 or self._clock.monotonic() > self._turn_ends:
            await trio.lowlevel.checkpoint()
            self._turn_ends = self._clock.monotonic() + _TURN_SECONDS

    # --- brokers -------------------------------------------------------------------------------

    def _find_eligible(self) -> set[int]:
        """Read from the image which brokers may be in an ISR; returns those that changed."""
        eligible = self.brokers
        unfenced = [one for one in self._metadata.image.brokers.values() if not one.is_fenced]
        epochs, before = {one.broker_id: one.broker_epoch for one in unfenced}, eligible.epochs
        stopping = {one.broker_id for one in unfenced if one.is_shutting_down}
        changed = {one for one in {**before, **epochs} if before.get(one) != epochs.get(one)}
        changed |= stopping ^ set(eligible.shutting_down)
        eligible.epochs, eligible.shutting_down = epochs, stopping
        self.is_retiring = self.node_id in stopping
        return changed

    async def _eligibility_changed(self, changed: set[int]) -> None:
        for partition in list(self.index.partitions.values()):
            leader = partition.leader
            if leader is not None and not partition.is_alone:
                if not changed.isdisjoint(leader.replicas):
                    partition.eligibility_changed()
                if self.is_retiring and not leader.is_retiring:
                    partition.retire()
                await self._let_others_run()

    # --- topics --------------------------------------------------------------------------------

    async def _reconfigure(self, names: Iterable[str]) -> None:
        """Give topics their current effective settings."""
        broker_values = self._settings.broker_values()
        if self.server is not None:
            self.server.set_rate(throttled_rate(broker_values, "leader"))
        if self._fetchers is not None:
            self._fetchers.set_rate(throttled_rate(broker_values, "follower"))
        for name in names:
            state = self.index.topics.get(name)
            if state is not None:
                state.configure(
                    topic_values(self._metadata.image.topic_settings(name), broker_values),
                    producer_id_expiration_ms=self._settings.integer("producer.id.expiration.ms"),
                    validates_every_record=self._settings.text(_VALIDATE_RECORDS) == "all",
                )
                state.min_insync_replicas = self._min_insync(name)
                for partition in self.index.partitions_of(name):
                    partition.configure()
                    await self._let_others_run()
        self.settings_changed.unpark_all()

    def _topic_state(self, name: str, topic_id: bytes) -> TopicState:
        state = self.index.topics.get(name)
        if state is None or state.topic_id != topic_id:
            state = self.index.topics[name] = TopicState(
                name,
                topic_id,
                self._settings.topic_values(name),
                producer_id_expiration_ms=self._settings.integer("producer.id.expiration.ms"),
                validates_every_record=self._settings.text(_VALIDATE_RECORDS) == "all",
            )
            state.min_insync_replicas = self._min_insync(name)
        return state

    def _min_insync(self, name: str) -> int:
        """min.insync.replicas as the controller sees it, see `ReplicationRules`."""
        defaults = ReplicationRules(self._settings.config.min_insync_replicas)
        return rules_of_topic(self._metadata.image.settings, name, defaults).min_insync_replicas

    async def _open_topic(self, topic: TopicImage, numbers: Iterable[int]) -> None:
        self._topic_state(topic.name, topic.topic_id)
        for number in numbers:
            if self._node.is_stopping and (topic.name, number) not in self.index.partitions:
                continue  # the metadata is durable; the next start makes the missing logs
            self._reconcile(topic, topic.partitions[number])
            await self._let_others_run()

    async def _remove_topics(self, topic_ids: Container[bytes]) -> None:
        """Forget topics that were removed from the image, and delete their logs."""
        topics = self.index.topics
        names = [name for name, state in topics.items() if state.topic_id in topic_ids]
        for name in names:
            del topics[name]
        for key in self.index.keys_of(set(names)):
            self._remove(key)
            await self._let_others_run()
        for name in names:
            for removed in self.topic_removed:
                removed(name)

    # --- one partition -------------------------------------------------------------------------

    def _reconcile(self, topic: TopicImage, image: PartitionRecord) -> None:
        """Make one partition what the metadata says."""
        key = (topic.name, image.partition)
        if self.node_id not in image.replicas:
            if key in self.index.partitions or key in self._directory.topic_ids:
                logger.info("%s-%d has moved to other brokers; deleting it", *key)
                self._remove(key)
            return
        partition = self.index.partitions.get(key) or self._open(topic, image)
        if partition is not None:
            self._give_role(partition, image)

    def _open(self, topic: TopicImage, image: PartitionRecord) -> Partition | None:
        key = (topic.name, image.partition)
        state = self.index.topics[topic.name]
        if key in self._directory.offline:
            self._directory.claim_offline(*key, topic.topic_id)  # reopened later
            return None
        log = self._directory.logs.get(key)
        if log is None:
            try:
                log = self._directory.create_log(
                    topic.name,
                    topic.topic_id,
                    image.partition,
                    state.log_config,
                    now_ms=self._clock.wall_ms(),
                )
            except StorageError as error:
                logger.error("cannot create the log of %s-%d: %s", *key, error)
                self.index.unmade.add(key)
                return None
            self.index.unmade.discard(key)
        elif log.is_offline is not None:
            return None
        log.config = state.log_config  # it may have been opened before its topic was known
        partition = self.index.partitions[key] = Partition(self, state, image.partition, log)
        return partition

    def _give_role(self, partition: Partition, image: PartitionRecord) -> None:
        was_leader = partition.is_leader
        internal = self._internal_topics.get(partition.topic.name)
        now_ms = self._clock.wall_ms()
        is_usable = self._is_usable(partition, image)
        try:
            if image.leader == self.node_id and is_usable:
                self._unfollow(partition)
                partition.lead(image, now_ms)
            elif image.leader in (NO_LEADER, self.node_id) or not is_usable:
                self._unfollow(partition)
                partition.rest(image.leader_epoch)
            else:
                assert self._fetchers is not None, f"{partition!r} has another leader"
                partition.follow(image, now_ms)
                self._fetchers.follow(partition)
        except StorageError as error:
            logger.error("%r has no role: %s", partition, error)
            partition.rest(image.leader_epoch)
        if internal is not None and was_leader != partition.is_leader:
            if was_leader:
                internal.listener().resign(partition.index)
            else:
                internal.listener().lead(partition)

    def _unfollow(self, partition: Partition) -> None:
        if self._fetchers is not None:
            self._fetchers.unfollow(partition)

    def _is_usable(self, partition: Partition, image: PartitionRecord) -> bool:
        """Whether a log can have a role.

        A leader whose log failed stays leader, so that it can name the most complete replica. A
        recovered log may have lost what other replicas have, so it must not lead again in the same
        epoch: they would truncate their logs to it.
        """
        key = (partition.topic.name, partition.index)
        recovered = self.index.recovered
        is_alone = image.in_sync_replicas == (self.node_id,)
        if is_alone or recovered.get(key, image.leader_epoch) != image.leader_epoch:
            recovered.pop(key, None)
        if key in recovered:
            return image.leader != self.node_id
        if partition.log.is_offline is None:
            return True
        return partition.is_leader and image.leader == self.node_id

    def _remove(self, key: PartitionKey) -> None:
        """Forget a partition and delete its log."""
        index = self.index
        partition = index.partitions.pop(key, None)
        index.unmade.discard(key)
        index.recovered.pop(key, None)
        if partition is not None:
            self._unfollow(partition)
            partition.rest(partition.leader_epoch)
            internal = self._internal_topics.get(key[0])
            if internal is not None:
                internal.listener().resign(key[1])
        if key in self._directory.topic_ids:
            try:
                self._directory.delete_log(*key, unique_suffix=self._unique_suffix())
            except StorageError as error:
                logger.error("cannot delete the log of %s-%d: %s", *key, error)

    # --- logs that failed ----------------------------------------------------------------------

    async def reopen(self, name: str, number: int) -> None:
        """Recover an offline partition from what is on the disk.

        Raises:
            StorageError, OSError: it cannot be opened.
        """
        async with self._lock:
            state, topic = self.index.topics.get(name), self._metadata.image.topics.get(name)
            if state is None or topic is None or (name, number) not in self._directory.topic_ids:
                return  # deleted meanwhile
            now_ms = self._clock.wall_ms()
            # A stop does not wait for it: the next start repeats what recovery has not done.
            await self._run_in_thread(
                lambda: self._directory.reopen_log(name, number, state.log_config, now_ms=now_ms),
                abandon_on_cancel=True,
            )
            old = self.index.partitions.pop((name, number), None)
            if old is not None:
                self._unfollow(old)
            self.index.recovered[name, number] = topic.partitions[number].leader_epoch
            self._reconcile(topic, topic.partitions[number])
            if old is not None:
                old.rest(old.leader_epoch)

    async def open_missing(self) -> None:
        """Make the logs that could not be made when their topic was created."""
        image = self._metadata.image
        async with self._lock:
            for name, number in sorted(self.index.unmade):
                topic = image.topics.get(name)
                if topic is not None and number < len(topic.partitions):
                    self._reconcile(topic, topic.partitions[number])
                    await self._let_others_run()
