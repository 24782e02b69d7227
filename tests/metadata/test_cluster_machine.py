"""Random histories of a cluster: the rules hold after every decision, and stale requests fail.

`tests.metadata.cluster.Cluster.commit` checks the rules; here is what happens to the cluster.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from minikafka.metadata.alter_partition import alter_partitions
from minikafka.metadata.brokers import unfence_broker, unregister_broker
from minikafka.metadata.decision import Refusal
from minikafka.metadata.elections import ElectionKind, balance_leaders, elect_uncleanly
from minikafka.metadata.reassignments import list_reassignments
from minikafka.metadata.records import NO_LEADER, PartitionRecord
from minikafka.metadata.topics import TopicReference, delete_topics
from minikafka.protocol.errors import ErrorCode
from minikafka.replication import IsrMember
from tests.kit.examples import examples
from tests.metadata.cluster import Cluster

BROKERS = st.integers(1, 5)
SOME = st.lists(BROKERS, min_size=1, max_size=4, unique=True)
TOPICS = ("t", "u")


class ClusterMachine(RuleBasedStateMachine):
    """Five brokers, two topics, and everything that can be asked of their controller."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(3)
        self.image = self.cluster.image
        self.cluster.topic("t", [1, 2, 3], [2, 3, 1], min_insync_replicas="2")
        self.old_epochs: list[tuple[int, int]] = []

    # --- brokers -------------------------------------------------------------------------------

    @rule(broker_id=BROKERS, is_clean=st.booleans(), is_caught_up=st.booleans())
    def register(self, broker_id: int, is_clean: bool, is_caught_up: bool) -> None:
        old = self.image.brokers.get(broker_id)
        is_clean &= old is not None
        held = self.in_sync_of(broker_id)
        broker = self.cluster.register(broker_id, is_clean=is_clean, is_caught_up=is_caught_up)
        if old is not None:
            assert broker.broker_epoch > old.broker_epoch
            self.old_epochs.append((broker_id, old.broker_epoch))
        if is_caught_up:
            return
        for key in held & self.in_sync_of(broker_id):
            # It stays only if it is the last one that may lead.
            assert self.at(*key).in_sync_replicas == (broker_id,) or is_clean
            assert self.at(*key).leader == NO_LEADER

    @rule(broker_id=BROKERS)
    def unregister(self, broker_id: int) -> None:
        old = self.image.brokers.get(broker_id)
        decision = unregister_broker(self.image, broker_id, self.cluster.defaults)
        assert (self.cluster.commit(decision) is None) == (old is not None)
        assert broker_id not in self.image.brokers

    @rule(broker_ids=SOME)
    def fence(self, broker_ids: list[int]) -> None:
        expected = {one for one in broker_ids if not self.image.is_fenced(one)}
        assert set(self.cluster.fence(*broker_ids)) == expected

    @rule(broker_id=BROKERS)
    def unfence(self, broker_id: int) -> None:
        broker = self.image.brokers.get(broker_id)
        if broker is not None and not broker.is_shutting_down:
            self.cluster.unfence(broker_id)

    @rule(broker_id=BROKERS, is_forced=st.booleans())
    def stop(self, broker_id: int, is_forced: bool) -> None:
        if broker_id not in self.image.brokers:
            return
        progress = self.cluster.stop(broker_id, is_forced=is_forced)
        assert self.image.brokers[broker_id].is_shutting_down
        assert self.image.brokers[broker_id].is_fenced == progress.may_stop
        assert progress.may_stop or progress.leaders_remaining
        assert progress.may_stop or not is_forced

    @precondition(lambda self: self.old_epochs)
    @rule(choice=st.data())
    def an_old_incarnation_is_not_heard(self, choice: st.DataObject) -> None:
        broker_id, epoch = choice.draw(st.sampled_from(self.old_epochs))
        for decision in (
            unfence_broker(self.image, broker_id, epoch, self.cluster.defaults),
            alter_partitions(self.image, broker_id, epoch, [], self.cluster.defaults),
        ):
            assert decision.records == []
            assert isinstance(decision.result, Refusal)

    # --- topics --------------------------------------------------------------------------------

    @rule(
        name=st.sampled_from(TOPICS),
        replicas=st.lists(SOME, min_size=1, max_size=2),
        min_insync=st.sampled_from(["1", "2", "3"]),
    )
    def create(self, name: str, replicas: list[list[int]], min_insync: str) -> None:
        known = self.image.brokers.keys()
        usable = all(
            len(one) == len(replicas[0])
            and known >= set(one)
            and any(map(self.image.is_active, one))
            for one in replicas
        )
        if name not in self.image.topics and usable:
            self.cluster.topic(name, *replicas, min_insync_replicas=min_insync)

    @rule(name=st.sampled_from(TOPICS))
    def delete(self, name: str) -> None:
        self.cluster.commit(delete_topics(self.image, [TopicReference(name)]))

    @rule(name=st.sampled_from(TOPICS), value=st.none() | st.sampled_from(["1", "2", "3"]))
    def set_min_insync(self, name: str, value: str | None) -> None:
        if name in self.image.topics:
            self.cluster.set("min.insync.replicas", value, name)

    @rule(name=st.sampled_from(TOPICS), value=st.none() | st.sampled_from(["true", "false"]))
    def set_unclean(self, name: str, value: str | None) -> None:
        if name in self.image.topics:
            self.cluster.set("unclean.leader.election.enable", value, name)

    # --- leaders -------------------------------------------------------------------------------

    @precondition(lambda self: self.led())
    @rule(choice=st.data(), in_sync=SOME)
    def an_honest_leader_changes_its_isr(self, choice: st.DataObject, in_sync: list[int]) -> None:
        name, number = choice.draw(st.sampled_from(self.led()))
        one = self.at(name, number)
        members = {one.leader, *in_sync} & set(one.replicas) & self.image.brokers.keys()
        proposal = self.cluster.proposal(*sorted(members), topic=name, number=number)
        (result,) = self.cluster.propose(proposal, by=one.leader)
        added = members - set(one.in_sync_replicas)
        if all(map(self.image.is_active, added)):
            assert isinstance(result, PartitionRecord)
            assert result == self.at(name, number)
            assert set(result.in_sync_replicas) == members & set(result.replicas)
        else:
            assert result is ErrorCode.INELIGIBLE_REPLICA

    @precondition(lambda self: self.led())
    @rule(choice=st.data(), to=BROKERS)
    def a_leader_hands_over(self, choice: st.DataObject, to: int) -> None:
        name, number = choice.draw(st.sampled_from(self.led()))
        one = self.at(name, number)
        proposal = self.cluster.proposal(
            *one.in_sync_replicas, leader=to, topic=name, number=number
        )
        (result,) = self.cluster.propose(proposal, by=one.leader)
        if to not in one.in_sync_replicas:
            assert result is ErrorCode.INVALID_REQUEST
        elif to == one.leader or self.image.is_active(to):
            assert self.at(name, number).leader == to
        else:
            assert result is ErrorCode.INELIGIBLE_REPLICA

    @precondition(lambda self: self.led())
    @rule(
        choice=st.data(),
        by=BROKERS,
        older=st.sampled_from([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (-1, 0, 0), (0, -1, 0)]),
    )
    def a_leader_that_knows_another_state_changes_nothing(
        self, choice: st.DataObject, by: int, older: tuple[int, int, int]
    ) -> None:
        name, number = choice.draw(st.sampled_from(self.led()))
        one = self.at(name, number)
        if by not in self.image.brokers or (older == (0, 0, 0) and by == one.leader):
            return
        proposal = self.cluster.proposal(*one.in_sync_replicas, topic=name, number=number)
        proposal = proposal._replace(
            leader_epoch=proposal.leader_epoch - older[0],
            partition_epoch=proposal.partition_epoch - older[1],
            in_sync_replicas=tuple(
                IsrMember(broker_id, epoch - older[2])
                for broker_id, epoch in proposal.in_sync_replicas
            ),
        )
        (result,) = self.cluster.propose(proposal, by=by)
        assert isinstance(result, ErrorCode)
        assert self.at(name, number) is one

    @rule(kind=st.sampled_from(ElectionKind))
    def elect(self, kind: ElectionKind) -> None:
        leaders = {key: self.at(*key).leader for key in self.led()}
        for key, code in self.cluster.elect(kind).items():
            one = self.at(*key)
            if code:
                assert one.leader == NO_LEADER or kind is ElectionKind.PREFERRED
            elif kind is ElectionKind.PREFERRED:
                assert one.replicas[0] in (one.leader, one.next_leader)
            else:
                assert one.leader != NO_LEADER
        for key, leader in leaders.items():
            assert self.at(*key).leader == leader, "a leader that lives keeps its partition"

    @rule()
    def balance(self) -> None:
        leaders = {key: self.at(*key).leader for key in self.led()}
        defaults = self.cluster.defaults
        self.cluster.commit(balance_leaders(self.image, defaults, imbalance_percentage=0))
        for key, leader in leaders.items():
            assert self.at(*key).leader == leader
        assert self.cluster.commit(elect_uncleanly(self.image, defaults)) == 0

    @rule(name=st.sampled_from(TOPICS), replicas=st.just([]) | SOME)
    def reassign(self, name: str, replicas: list[int]) -> None:
        code = self.cluster.reassign(*replicas, topic=name)
        if name not in self.image.topics:
            assert code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif not self.image.brokers.keys() >= set(replicas):
            assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        elif replicas:
            assert code is ErrorCode.NONE
            one = self.at(name, 0)
            assert tuple(replicas) == one.replicas[: len(replicas)]
            assert set(one.removing_replicas) == set(one.replicas) - set(replicas)
            going_on = {
                (each.topic, each.partition) for each in list_reassignments(self.image, None)
            }
            is_over = not one.adding_replicas and one.replicas == tuple(replicas)
            assert ((name, 0) not in going_on) == is_over

    # --- lookups -------------------------------------------------------------------------------

    def at(self, name: str, number: int) -> PartitionRecord:
        return self.cluster.at(name, number)

    def led(self) -> list[tuple[str, int]]:
        return [
            (topic.name, one.partition)
            for topic in self.image.topics.values()
            for one in topic.partitions
            if one.leader != NO_LEADER
        ]

    def in_sync_of(self, broker_id: int) -> set[tuple[str, int]]:
        return {
            (topic.name, one.partition)
            for topic, one in self.image.partitions_of_broker(broker_id)
            if broker_id in one.in_sync_replicas
        }


TestClusterMachine = ClusterMachine.TestCase
TestClusterMachine.settings = settings(max_examples=examples(100), stateful_step_count=40)
