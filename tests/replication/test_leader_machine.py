"""A leader between followers and a controller that do as they like, against a plain model.

The model knows everything at once: every log, every proposal that is on its way, the true ISR. What
is required of the leader is only what replication promises.
"""

from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minikafka import replication
from minikafka.protocol.errors import ErrorCode
from tests.kit.examples import examples
from tests.replication.leaders import REFUSALS

FOLLOWERS = st.sampled_from((2, 3))
LAG_TIME_MAX_S = 10.0


class LeaderMachine(RuleBasedStateMachine):
    """Broker 1 leads; 2 and 3 follow. The controller takes, refuses and forgets proposals."""

    @initialize(
        isr=st.sampled_from(((1,), (1, 2), (1, 3), (1, 2, 3))),
        min_insync=st.sampled_from((1, 2)),
        behind=st.tuples(st.integers(0, 5), st.integers(0, 5)),
        high_watermark=st.integers(0, 5),
    )
    def begin(
        self, isr: tuple[int, ...], min_insync: int, behind: tuple[int, int], high_watermark: int
    ) -> None:
        self.now = 0.0
        self.isr = isr
        self.leader_epoch, self.partition_epoch = 1, 1
        self.end = 5
        # Where each follower's log ends, and what was committed before: everybody in sync has it.
        self.ends = {2: 5 - behind[0], 3: 5 - behind[1]}
        self.committed = min([5, *(self.ends[one] for one in isr if one != 1)])
        self.min_insync = min_insync
        self.epochs = {1: 11, 2: 12, 3: 13}
        self.next_epoch = 14
        self.brokers = replication.EligibleBrokers(dict(self.epochs))
        self.on_their_way: list[replication.ProposeIsr] = []
        self.next_leader = -1
        self.is_frozen = False
        self.leader = replication.LeaderReplica(
            node_id=1,
            replicas=(1, 2, 3),
            isr=isr,
            leader_epoch=1,
            partition_epoch=1,
            log_end_offset=5,
            high_watermark=min(high_watermark, self.committed),
            brokers=self.brokers,
            min_insync=min_insync,
            lag_time_max_s=LAG_TIME_MAX_S,
            now=0.0,
        )
        self.carry_out(self.leader.begin(0.0))

    def carry_out(self, effects: list[replication.LeaderEffect]) -> None:
        for effect in effects:
            match effect:
                case replication.AdvanceHighWatermark(offset):
                    self.advance(offset)
                case replication.ProposeIsr():
                    assert 1 in effect.broker_ids
                    assert effect.leader_epoch == self.leader_epoch
                    self.on_their_way.append(effect)
                case replication.BeginEpoch(epoch, start_offset):
                    assert (epoch, start_offset) == (self.leader_epoch, self.end)
                case replication.Freeze():
                    assert not self.is_frozen
                    self.is_frozen = True
                case replication.Thaw():
                    assert self.is_frozen
                    self.is_frozen = False

    def advance(self, offset: int) -> None:
        """What is committed is on the disks of all members of the ISR, known or not."""
        assert offset <= self.end
        assert len(self.leader.isr.isr) >= self.min_insync
        for member in self.isr:
            assert member == 1 or self.ends[member] >= offset, f"{member} has not {offset}"
        self.committed = max(self.committed, offset)

    # --- what happens ----------------------------------------------------------------------------

    @precondition(lambda self: not self.is_frozen)
    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        self.end += count
        self.carry_out(self.leader.appended(self.end, self.now))

    @rule(follower=FOLLOWERS, count=st.integers(0, 4))
    def fetch(self, follower: int, count: int) -> None:
        """A follower got some records, and asks for more."""
        assume(follower in self.brokers.epochs)
        self.ends[follower] = min(self.end, self.ends[follower] + count)
        self.tell(follower, self.epochs[follower], self.ends[follower])

    @rule(follower=FOLLOWERS, offset=st.integers(0, 30))
    def late_fetch(self, follower: int, offset: int) -> None:
        """A fetch that was sent long ago, in this life or in an earlier one."""
        epoch = self.epochs[follower] if offset <= self.ends[follower] else 1
        self.tell(follower, epoch, offset)

    def tell(self, follower: int, broker_epoch: int, offset: int) -> None:
        try:
            effects = self.leader.follower_fetched(follower, broker_epoch, offset, 0, self.now)
        except replication.ReplicaFetchRefused:
            return
        self.carry_out(effects)

    @rule(seconds=st.sampled_from((0.0, 0.1, 1.0, 4.0, LAG_TIME_MAX_S)))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for _ in range(20):
            deadline = self.leader.deadline()
            if deadline is None or deadline > self.now:
                return
            self.carry_out(self.leader.expire(self.now))
        raise AssertionError(f"the clock never rests: {deadline} at {self.now}")

    @precondition(lambda self: self.on_their_way)
    @rule(data=st.data(), is_copied=st.booleans(), is_told=st.booleans())
    def decide(self, data: st.DataObject, is_copied: bool, is_told: bool) -> None:
        """A proposal reaches the controller, which takes it if nothing else came first."""
        index = data.draw(st.integers(0, len(self.on_their_way) - 1))
        proposal = self.on_their_way[index]
        if not is_copied:
            del self.on_their_way[index]
        state = (self.leader_epoch, self.partition_epoch)
        members = dict(proposal.isr)
        if (proposal.leader_epoch, proposal.partition_epoch) != state:
            self.refuse(proposal, ErrorCode.INVALID_UPDATE_VERSION)
        elif any(self.brokers.epochs.get(one) != epoch for one, epoch in members.items()):
            self.refuse(proposal, ErrorCode.INELIGIBLE_REPLICA)
        elif proposal.leader > 1:
            assert self.ends[proposal.leader] == self.end
            self.refuse(proposal, ErrorCode.INELIGIBLE_REPLICA)  # a hand-over would be the end
        else:
            self.isr = proposal.broker_ids
            for member in self.isr:
                assert member == 1 or self.ends[member] >= self.committed
            self.changed(is_told=is_told)

    @rule(error_code=st.sampled_from(REFUSALS))
    def refuse_blindly(self, error_code: ErrorCode) -> None:
        """No controller was reached, or a deposed one."""
        if isinstance(self.leader.isr, replication.Pending):
            self.refuse(self.leader.isr.proposal, error_code)

    def refuse(self, proposal: replication.ProposeIsr, error_code: ErrorCode) -> None:
        self.carry_out(self.leader.isr_refused(proposal, error_code, self.now))

    @rule(follower=FOLLOWERS, lost=st.integers(0, 3), is_told=st.booleans())
    def restart(self, follower: int, lost: int, is_told: bool) -> None:
        """A follower dies, may lose something, and registers: it is out of the ISR."""
        self.epochs[follower] = self.next_epoch
        self.next_epoch += 1
        self.ends[follower] = max(0, self.ends[follower] - lost)
        self.brokers.epochs = {**self.brokers.epochs, follower: self.epochs[follower]}
        self.isr = tuple(one for one in self.isr if one != follower)
        self.changed(is_told=is_told)

    @rule(follower=FOLLOWERS, is_told=st.booleans())
    def fence(self, follower: int, is_told: bool) -> None:
        epochs = dict(self.brokers.epochs)
        if epochs.pop(follower, None) is None:
            epochs[follower] = self.epochs[follower]
        self.brokers.epochs = epochs
        if follower in self.isr:
            self.isr = tuple(one for one in self.isr if one != follower)
            self.changed(is_told=is_told)
        else:
            self.carry_out(self.leader.eligibility_changed(self.now))

    @rule(is_told=st.booleans())
    def next_leader_epoch(self, is_told: bool) -> None:
        self.leader_epoch += 1
        self.on_their_way.clear()
        self.changed(is_told=True)

    @rule(next_leader=st.sampled_from((-1, 2, 3)))
    def ask_for_a_hand_over(self, next_leader: int) -> None:
        self.next_leader = next_leader if next_leader in self.isr else -1
        self.changed(is_told=True)

    def changed(self, *, is_told: bool) -> None:
        self.partition_epoch += 1
        if self.next_leader not in self.isr:
            self.next_leader = -1
        if is_told:
            self.tell_image()

    @rule()
    def tell_image(self) -> None:
        """The metadata log reaches the leader."""
        self.carry_out(
            self.leader.image_changed(
                (1, 2, 3),
                self.isr,
                self.leader_epoch,
                self.partition_epoch,
                self.now,
                self.next_leader,
            )
        )

    # --- what always holds -----------------------------------------------------------------------

    @invariant()
    def the_leader_reckons_with_the_true_isr(self) -> None:
        """Whatever the controller may have decided, the leader waits for all of them."""
        if self.leader.partition_epoch == self.partition_epoch:
            assert set(self.leader.isr.isr) == set(self.isr)

    @invariant()
    def a_frozen_leader_says_so(self) -> None:
        assert self.leader.is_frozen == self.is_frozen

    def teardown(self) -> None:
        """Everybody catches up, the controller answers: then all are in sync, all is committed."""
        if not hasattr(self, "leader"):
            return
        self.brokers.epochs = dict(self.epochs)
        self.next_leader = -1
        self.changed(is_told=True)
        for _ in range(8):
            self.now += 2.0
            for follower in (2, 3):
                self.ends[follower] = self.end
                self.tell(follower, self.epochs[follower], self.end)
            self.wait(0.0)
            for proposal in self.on_their_way:
                if proposal.partition_epoch == self.partition_epoch:
                    self.isr = proposal.broker_ids
                    self.changed(is_told=True)
                    break
            self.on_their_way.clear()
        assert set(self.isr) == {1, 2, 3}
        assert self.leader.high_watermark == self.end
        assert not self.is_frozen


LeaderMachine.TestCase.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None
)
TestLeader = LeaderMachine.TestCase
