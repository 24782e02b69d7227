"""The partitions that this broker has: opened, given roles, and removed as the metadata says.

`Replicas.apply` follows the metadata log: it is called with the records of every decision, in
order, after the image has replayed them. It makes the logs that are missing, lets go of those whose
topics are gone or which belong elsewhere now, and tells every partition whether it leads or
follows; what one log cannot do does not stop the others.

A broker takes no role before `activate`: what its metadata said when it stopped may be long past.
It may have been the leader then, and another one is now. Until then its logs are only opened, and
nothing is deleted or created. In a quorum of one nobody else can have decided anything, so there
`activate` is called at once.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING

import trio

from ..metadata.image import NO_LEADER, RESOURCE_TOPIC, PartitionImage, TopicImage
from ..metadata.records import (
    BrokerChangeRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    SettingRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from ..metadata.replication_rules import ReplicationRules, rules_of_topic
from ..metadata.topic_settings import topic_values
from ..replication import EligibleBrokers, ProposeIsr
from ..storage.errors import StorageError
from ..storage.partition_identity import claim_partition
from .isr_changes import IsrChanges
from .leader_watch import LeaderWatch
from .no_followers import NoFetchers, NoFollowers
from .partition import Partition
from .partition_table import PartitionKey, PartitionTable
from .read_replicas import is_rack_aware
from .standing import take_standing
from .throttle import throttled_rate
from .topic_state import TopicState

if TYPE_CHECKING:
    from .broker import Broker
    from .replica_fetchers import ReplicaFetchers
    from .replica_serving import ReplicaServer

logger = logging.getLogger(__name__)

_STEPS_PER_CHECKPOINT = 8
"""Steps that each make, remove or reconfigure one log; the slow ones take about a millisecond."""


class Replicas(PartitionTable):
    """Every partition that this broker has.

    Attributes:
        brokers: who may be in an ISR.
        frozen: partitions that are being handed over to other leaders.
        lag_time_max_s: replica.lag.time.max.ms.
        is_active: partitions have their roles.
        is_rack_aware: consumers are sent to replicas in their rack (KIP-392), so followers should
            know high watermarks soon.
        is_retiring: this broker wants to stop and hands over what it leads.
        broker_epoch: of this broker's registration.
        fetchers: where this broker's followers fetch.
        server: what followers of this broker's leaders fetch.
        isr_changes: what leaders here want the controller to change.
    """

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.brokers = EligibleBrokers({})
        self.frozen: dict[Partition, None] = {}
        self.lag_time_max_s = broker.config.replica_lag_time_max_ms / 1000
        self.is_active = False
        self.is_retiring = False
        self.is_rack_aware = is_rack_aware(broker.config.replica_selector_class)
        self.broker_epoch = -1
        self.fetchers: ReplicaFetchers | NoFetchers = NoFetchers()
        self.server: ReplicaServer | NoFollowers = NoFollowers()
        if broker.topology.is_clustered:
            from .replica_fetchers import ReplicaFetchers
            from .replica_serving import ReplicaServer

            self.fetchers = ReplicaFetchers(broker)
            self.server = ReplicaServer(broker)
        self.isr_changes = IsrChanges(broker)
        self.now = broker.clock.monotonic
        self._leader_watch = LeaderWatch(self)
        self._lock = trio.Lock()
        self._steps = 0

    # --- start ---------------------------------------------------------------------------------

    def open_logs(self) -> None:
        """Recover every log; may block. Nobody is served and nothing changes its role."""
        for topic in self._broker.image.topics.values():
            self._topic_state(topic.name, topic.topic_id)
        default = TopicState(
            "", b"", self._broker.effective_topic_values(""), producer_id_expiration_ms=1
        ).log_config
        self._directory.open_all(
            lambda topic: self.topics[topic].log_config if topic in self.topics else default,
            now_ms=self._broker.clock.wall_ms(),
            topic_id_for=self._topic_id_for,
        )

    def activate_now(self) -> None:
        """Give every partition its role, for a quorum of one before it serves; may block.

        Whoever calls it has settled what becomes of logs that the metadata does not know. No event
        loop need run, and no clock: whoever else has replicas was last seen long ago.
        """
        self.is_active = True
        self.now = lambda: 0.0
        self._find_eligible()
        for topic in self._broker.image.topics.values():
            self._topic_state(topic.name, topic.topic_id)
            for image in topic.partitions:
                self._reconcile(topic, image)
        self.now = self._broker.clock.monotonic

    async def activate(self, broker_epoch: int) -> None:
        """Give every partition its role: the image holds this broker's registration.

        Logs that belong to no topic any more, or not to this broker, are deleted: the metadata log
        is replicated and has lost nothing. To be called again after another registration.
        """
        async with self._lock:
            self.broker_epoch = broker_epoch
            self.is_active = True
            await self._apply_all()

    def propose_isr(self, partition: Partition, proposal: ProposeIsr) -> None:
        """Send a proposal to the active controller."""
        self.isr_changes.propose(partition, proposal)
        self.watch(partition)

    def watch(self, partition: Partition) -> None:
        """Let a leader's machine look at the time when it wants to."""
        self._leader_watch.add(partition)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Fetch, ask for ISR changes and watch followers until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.fetchers.run)
            nursery.start_soon(self.server.run)
            nursery.start_soon(self.isr_changes.run)
            if self._broker.topology.is_clustered:
                from .disk_failures import DiskFailures

                nursery.start_soon(DiskFailures(self._broker).run)
            nursery.start_soon(self._leader_watch.run)
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
        for record in records:
            match record:
                case SettingRecord(resource_type=kind, resource_name=name):
                    are_settings_changed = True
                    changed |= (
                        {name: None} if kind == RESOURCE_TOPIC else dict.fromkeys(self.topics)
                    )
                case RemoveTopicRecord(topic_id=topic_id):
                    removed[topic_id] = None
                case TopicRecord(topic_id=topic_id):
                    touched.setdefault(topic_id, set())
                case PartitionRecord(topic_id=topic_id, partition=number):
                    touched.setdefault(topic_id, set()).add(number)
                case RegisterBrokerRecord() | BrokerChangeRecord() | UnregisterBrokerRecord():
                    are_brokers_changed = True
                case _:
                    pass
        eligible = self._find_eligible() if are_brokers_changed else set[int]()
        if are_settings_changed:
            await self._reconfigure(changed)
        if removed:
            await self._remove_topics(removed)
        for topic_id, numbers in touched.items():
            topic = self._broker.image.topics_by_id.get(topic_id)
            if topic is not None:
                await self._open_topic(topic, sorted(numbers))
        if eligible:
            await self._tell_eligibility(eligible)
        self.server.metadata_changed()

    async def _apply_all(self) -> None:
        """Compare everything with the image."""
        image = self._broker.image
        eligible = self._find_eligible()
        await self._remove_topics(
            {one.topic_id for one in self.topics.values()} - image.topics_by_id.keys()
        )
        await self._delete_strays()
        await self._reconfigure(list(self.topics))
        for topic in list(image.topics.values()):
            await self._open_topic(topic, range(len(topic.partitions)))
        await self._tell_eligibility(eligible)
        self.server.metadata_changed()

    async def _delete_strays(self) -> None:
        """Delete the logs that belong to no topic, or not to this broker."""
        image = self._broker.image
        for key, topic_id in list(self._directory.topic_ids.items()):
            partition = image.partition(topic_id, key[1])
            if partition is None or self.node_id not in partition.replicas:
                logger.warning("%s-%d does not belong here any more; deleting it", *key)
                self._remove(key)
                await self._let_others_run()

    async def _let_others_run(self) -> None:
        """Called after each step of a long work: lets other tasks run every few steps."""
        self._steps += 1
        if self._steps % _STEPS_PER_CHECKPOINT == 0:
            await trio.lowlevel.checkpoint()

    # --- brokers -------------------------------------------------------------------------------

    def _find_eligible(self) -> set[int]:
        """Take over from the image who may be in an ISR; returns whose standing changed."""
        changed = take_standing(self.brokers, self._broker.image.brokers.values())
        self.is_retiring = self.node_id in self.brokers.shutting_down
        return changed

    async def _tell_eligibility(self, changed: set[int]) -> None:
        for partition in list(self.partitions.values()):
            leader = partition.leader
            if leader is not None and not partition.is_alone:
                if not changed.isdisjoint(leader.replicas):
                    partition.eligibility_changed()
                if self.is_retiring and not leader.is_retiring:
                    partition.retire()
                await self._let_others_run()

    # --- topics --------------------------------------------------------------------------------

    async def _reconfigure(self, names: Iterable[str]) -> None:
        """Let topics take their effective settings anew."""
        broker = self._broker
        broker_values = broker.effective_broker_values()
        self.server.set_rate(throttled_rate(broker_values, "leader"))
        self.fetchers.set_rate(throttled_rate(broker_values, "follower"))
        for name in names:
            state = self.topics.get(name)
            if state is not None:
                state.configure(
                    topic_values(broker.image.topic_settings(name), broker_values),
                    producer_id_expiration_ms=broker.effective_int("producer.id.expiration.ms"),
                )
                state.min_insync_replicas = self._min_insync(name)
                for partition in self.partitions_of(name):
                    partition.configure()
                    await self._let_others_run()

    def _topic_state(self, name: str, topic_id: bytes) -> TopicState:
        state = self.topics.get(name)
        if state is None or state.topic_id != topic_id:
            state = self.topics[name] = TopicState(
                name,
                topic_id,
                self._broker.effective_topic_values(name),
                producer_id_expiration_ms=self._broker.effective_int("producer.id.expiration.ms"),
            )
            state.min_insync_replicas = self._min_insync(name)
        return state

    def _min_insync(self, name: str) -> int:
        """min.insync.replicas as the controller sees it, see `ReplicationRules`."""
        defaults = ReplicationRules(self._broker.config.min_insync_replicas)
        return rules_of_topic(self._broker.image.settings, name, defaults).min_insync_replicas

    async def _open_topic(self, topic: TopicImage, numbers: Iterable[int]) -> None:
        self._topic_state(topic.name, topic.topic_id)
        for number in numbers:
            if self._broker.is_stopping and (topic.name, number) not in self.partitions:
                continue  # the metadata is durable; the next start makes the logs that are missing
            self._reconcile(topic, topic.partitions[number])
            await self._let_others_run()

    async def _remove_topics(self, topic_ids: Container[bytes]) -> None:
        """Forget topics that are gone from the image, and let go of their logs."""
        names = [name for name, state in self.topics.items() if state.topic_id in topic_ids]
        for name in names:
            del self.topics[name]
        gone = set(names)
        known = {**self.partitions, **self._directory.topic_ids, **dict.fromkeys(self._unmade)}
        for key in [key for key in known if key[0] in gone]:
            self._remove(key)
            await self._let_others_run()
        for name in names:
            self._broker.groups.topic_deleted(name)

    # --- one partition -------------------------------------------------------------------------

    def _reconcile(self, topic: TopicImage, image: PartitionImage) -> None:
        """Let one partition be what the metadata says."""
        key = (topic.name, image.partition)
        if self.node_id not in image.replicas:
            if key in self.partitions or key in self._directory.topic_ids:
                logger.info("%s-%d is kept by other brokers now; deleting it", *key)
                self._remove(key)
            return
        partition = self.partitions.get(key) or self._open(topic, image)
        if partition is not None:
            self._give_role(partition, image)

    def _open(self, topic: TopicImage, image: PartitionImage) -> Partition | None:
        key = (topic.name, image.partition)
        state = self.topics[topic.name]
        if key in self._directory.offline:
            claim_partition(self._directory, key, topic.topic_id)  # to be opened again later
            return None
        log = self._directory.logs.get(key)
        if log is None:
            try:
                log = self._directory.create_log(
                    topic.name,
                    topic.topic_id,
                    image.partition,
                    state.log_config,
                    now_ms=self._broker.clock.wall_ms(),
                )
            except StorageError as error:
                logger.error("cannot create the log of %s-%d: %s", *key, error)
                self._unmade.add(key)
                return None
            self._unmade.discard(key)
        elif log.is_offline is not None:
            return None
        log.config = state.log_config  # it may have been opened before its topic was known
        partition = self.partitions[key] = Partition(self, state, image.partition, log)
        return partition

    def _give_role(self, partition: Partition, image: PartitionImage) -> None:
        was_leader = partition.is_leader
        coordinator = self._coordinator_in(partition.topic.name)
        now_ms = self._broker.clock.wall_ms()
        is_usable = self._is_usable(partition, image)
        try:
            if image.leader == self.node_id and is_usable:
                self.fetchers.unfollow(partition)
                partition.lead(image, now_ms)
            elif image.leader in (NO_LEADER, self.node_id) or not is_usable:
                self.fetchers.unfollow(partition)
                partition.rest(image.leader_epoch)
            else:
                partition.follow(image, now_ms)
                self.fetchers.follow(partition)
        except StorageError as error:
            logger.error("%r has no role: %s", partition, error)
            partition.rest(image.leader_epoch)
        if coordinator is not None and was_leader != partition.is_leader:
            if was_leader:
                coordinator.resign(partition.index)
            else:
                coordinator.lead(partition)

    def _is_usable(self, partition: Partition, image: PartitionImage) -> bool:
        """Whether a log can have a role.

        A leader whose log failed goes on as it is, so that it can name the replica that has most.
        When the log was recovered it may have lost what others have, and must not lead again in
        the same epoch, or they would cut it off.
        """
        key = (partition.topic.name, partition.index)
        is_alone = image.in_sync_replicas == (self.node_id,)
        if is_alone or self._recovered.get(key, image.leader_epoch) != image.leader_epoch:
            self._recovered.pop(key, None)
        if key in self._recovered:
            return image.leader != self.node_id
        if partition.log.is_offline is None:
            return True
        return partition.is_leader and image.leader == self.node_id

    def _remove(self, key: PartitionKey) -> None:
        """Forget a partition and delete its log."""
        partition = self.partitions.pop(key, None)
        self._unmade.discard(key)
        self._recovered.pop(key, None)
        if partition is not None:
            self.fetchers.unfollow(partition)
            partition.rest(partition.leader_epoch)
            coordinator = self._coordinator_in(key[0])
            if coordinator is not None:
                coordinator.resign(key[1])
        if key in self._directory.topic_ids:
            try:
                self._directory.delete_log(*key, unique_suffix=self._broker.random_id().hex())
            except StorageError as error:
                logger.error("cannot delete the log of %s-%d: %s", *key, error)

    # --- logs that failed ----------------------------------------------------------------------

    async def reopen(self, name: str, number: int) -> None:
        """Recover an offline partition from what is on the disk.

        Raises:
            StorageError, OSError: it cannot be opened.
        """
        async with self._lock:
            state, topic = self.topics.get(name), self._broker.image.topics.get(name)
            if state is None or topic is None or (name, number) not in self._directory.topic_ids:
                return  # deleted meanwhile
            now_ms = self._broker.clock.wall_ms()
            # A stop does not wait for it: what recovery has not done now, the next start does.
            await self._broker.run_in_thread(
                lambda: self._directory.reopen_log(name, number, state.log_config, now_ms=now_ms),
                abandon_on_cancel=True,
            )
            old = self.partitions.pop((name, number), None)
            if old is not None:
                self.fetchers.unfollow(old)
            self._recovered[name, number] = topic.partitions[number].leader_epoch
            self._reconcile(topic, topic.partitions[number])
            if old is not None:
                old.rest(old.leader_epoch)

    async def open_missing(self) -> None:
        """Make the logs that could not be made when their topic was created."""
        image = self._broker.image
        async with self._lock:
            for name, number in sorted(self._unmade):
                topic = image.topics.get(name)
                if topic is not None and number < len(topic.partitions):
                    self._reconcile(topic, topic.partitions[number])
                    await self._let_others_run()
