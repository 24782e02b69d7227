"""One replica of a simulated node: it leads, follows or rests, and lets consumers read."""

from __future__ import annotations

from minikafka.metadata.image import NO_LEADER, PartitionImage
from minikafka.protocol.errors import ErrorCode
from minikafka.replication import cut_before_leading
from tests.simulation.cluster.following import Following
from tests.simulation.cluster.leading import Leading
from tests.simulation.cluster.messages import (
    Altered,
    Entry,
    Fetch,
    Fetched,
    Produce,
    Read,
    ReadAnswer,
)
from tests.simulation.cluster.replica_state import NOW_MS, READ_SIZE_BYTES_MAX, entries_on_disk

LAG_TIME_MAX_S = 6.0


class SimulatedReplica(Leading, Following):
    """See the module's text."""

    # --- roles -----------------------------------------------------------------------------------

    def settle(self, image: PartitionImage) -> None:
        """Take the role that the metadata log gives."""
        node_id = self.node.node_id
        if image.leader == node_id:
            self._lead(image)
        elif image.leader != NO_LEADER and node_id in image.replicas:
            self._follow(image)
        else:
            self.rest()
        self.set_timer()

    def _lead(self, image: PartitionImage) -> None:
        node, now = self.node, self.node.world.now
        if self.leader is None:
            self.rest()
            damaged_from = cut_before_leading(self.log, len(image.replicas))
            if damaged_from is not None:
                node.world.note(
                    "{} cuts {} where it is damaged: {}", node, self.number, damaged_from
                )
                self.log.truncate_to(damaged_from)
                self.cut_entries()
            end_offset = self.log.log_end_offset
            if self.log.skip_lost(leader_epoch=image.leader_epoch, now_ms=NOW_MS):
                self.take_new_entries(entries_on_disk(self.log, end_offset))
            self.log.accept_damage()
            node.world.note("{} leads {} in epoch {}", node, self.number, image.leader_epoch)
            node.truth.led(node.node_id, node.boot, self.number, image.leader_epoch, self.entries)
            self.leader = self.leader_class(
                node_id=node.node_id,
                replicas=image.replicas,
                isr=image.in_sync_replicas,
                leader_epoch=image.leader_epoch,
                partition_epoch=image.partition_epoch,
                log_end_offset=self.log.log_end_offset,
                high_watermark=self.log.high_watermark,
                brokers=node.brokers,
                min_insync=node.rules.min_insync_replicas,
                lag_time_max_s=LAG_TIME_MAX_S,
                is_sync_counted=node.truth.is_synced,
                synced_offset=self.log.recovery_point,
                next_leader=image.next_leader,
                now=now,
            )
            self.carry_out(self.leader.begin(now))
            self.sync_soon()
        else:
            epoch = self.leader.leader_epoch
            if image.leader_epoch != epoch:
                node.truth.led(
                    node.node_id, node.boot, self.number, image.leader_epoch, self.entries
                )
            self.carry_out(
                self.leader.image_changed(
                    image.replicas,
                    image.in_sync_replicas,
                    image.leader_epoch,
                    image.partition_epoch,
                    now,
                    image.next_leader,
                )
            )
        if node.is_stopping and self.leader is not None:
            self.carry_out(self.leader.retire(now))

    def _follow(self, image: PartitionImage) -> None:
        if self.follower is None:
            self.rest()
            self.follower = self.follower_class(
                self.log, leader_id=image.leader, leader_epoch=image.leader_epoch
            )
            self.follow_effects(self.follower.begin(), ())
            self.ask()
        elif image.leader_epoch > self.follower.leader_epoch:
            self.follower.leader_changed(image.leader, image.leader_epoch)
            self.ask()

    def rest(self) -> None:
        """Neither lead nor follow."""
        self.leader = None
        self.follower = None
        self.stop_asking()
        self.send_all_away()

    def receive(self, sender: int, message: Fetch | Fetched | Produce | Read | Altered) -> None:
        """A message about this partition."""
        match message:
            case Fetch():
                self.fetched_by(sender, message)
            case Fetched():
                self.fetched(message)
            case Produce():
                self.produce(sender, message)
            case Read():
                self.read(sender, message)
            case Altered(proposal=proposal, error_code=error_code):
                self.refused(proposal, error_code)

    # --- consumers -------------------------------------------------------------------------------

    def read(self, client: int, request: Read) -> None:
        """A consumer reads, from the leader or (KIP-392) from a follower."""
        log = self.log
        end = log.high_watermark
        error = ErrorCode.NONE
        entries: tuple[Entry, ...] = ()
        if self.leader is None and self.follower is None:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif request.offset > log.log_end_offset:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            read = log.read(
                request.offset, size_bytes_max=READ_SIZE_BYTES_MAX, upper_bound_offset=end
            )
            if read.records is not None:
                entries = tuple(self.entries_between(request.offset, read.next_offset))
                self.node.truth.read(self.number, entries)
        self.node.send(client, ReadAnswer(self.number, request.correlation, error, entries))

    # --- time ------------------------------------------------------------------------------------

    def eligibility_changed(self) -> None:
        """A broker was fenced, unfenced or registered."""
        if self.leader is not None:
            self.carry_out(self.leader.eligibility_changed(self.node.world.now))
            self.set_timer()

    def retire(self) -> None:
        """The node wants to stop."""
        if self.leader is not None:
            self.carry_out(self.leader.retire(self.node.world.now))
            self.set_timer()

    def expire(self, now: float) -> None:
        if self.leader is not None:
            deadline = self.leader.deadline()
            if deadline is not None and deadline <= now:
                self.carry_out(self.leader.expire(now))
        elif self.follower is not None:
            self.follower.expire(now)
            self.ask_again()
