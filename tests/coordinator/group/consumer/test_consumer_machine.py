"""Random lives of a consumer group: members, topics, coordinators and answers come and go.

The model is what clients know: the partitions that each reads, which it drops only when it revokes,
leaves, is fenced, or dies. Whatever happens, no partition is read by two members, epochs never go
back, and the log adds up to the state of the coordinator that wrote it; and when trouble ends, all
members get exactly what their target says.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minikafka.coordinator.group.consumer.consumer_group import ConsumerGroup
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import consumer_group_heartbeat
from tests.coordinator.group.consumer.consumer_shell import (
    REBALANCE_MS,
    SESSION_S,
    ConsumerShell,
    World,
    assigned,
)
from tests.coordinator.group.harness import GROUP, Call

TOPICS = ("flights", "fleet", "airports")
SUBSCRIPTIONS: tuple[dict[str, Any], ...] = (
    {"topics": ["flights"]},
    {"topics": ["flights", "airports"]},
    {"regex": "fl.*"},
    {"topics": ["airports"], "regex": "fle+t"},
)
MEMBERS_MAX = 5


class Client:
    """One member, as it sees itself.

    Attributes:
        epoch: of the last answer; 0 before it has joined.
        owned: the partitions that it reads.
        wanted: the assignment that it has received and not taken over yet.
        call: the heartbeat whose answer it waits for.
    """

    def __init__(self, member_id: str, instance: str | None, subscription: dict[str, Any]) -> None:
        self.member_id = member_id
        self.instance = instance
        self.subscription = subscription
        self.epoch = 0
        self.owned: dict[bytes, frozenset[int]] = {}
        self.wanted: dict[bytes, frozenset[int]] | None = None
        self.told_at_s = 0.0
        self.call: Call[consumer_group_heartbeat.Response] | None = None

    def revoke(self) -> None:
        """Stop to read what it should not read any longer."""
        if self.wanted is not None:
            self.owned = {
                topic: kept
                for topic, indexes in self.owned.items()
                if (kept := indexes & self.wanted.get(topic, frozenset()))
            }

    def lose_all(self) -> None:
        self.epoch, self.owned, self.wanted = 0, {}, None


class ConsumerGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(flights=3, airports=2)
        self.shell = ConsumerShell(self.world)
        self.clients: list[Client] = []
        self.made = 0
        self.away: list[str] = []
        self.group_epoch = 0

    # --- clients ---------------------------------------------------------------------------

    @initialize(count=st.integers(1, 3))
    def some_members(self, count: int) -> None:
        for _ in range(count):
            self.join(SUBSCRIPTIONS[0], None)

    @precondition(lambda self: len(self.clients) < MEMBERS_MAX)
    @rule(subscription=st.sampled_from(SUBSCRIPTIONS), instance=st.sampled_from([None, None, "i"]))
    def join(self, subscription: dict[str, Any], instance: str | None) -> None:
        if instance is not None and any(one.instance == instance for one in self.clients):
            instance = None
        self.made += 1
        client = Client(f"m{self.made}", instance, subscription)
        self.clients.append(client)
        self._beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        self._beat(data.draw(st.sampled_from(self.clients)))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def revoke(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.clients)).revoke()

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), subscription=st.sampled_from(SUBSCRIPTIONS))
    def subscribe_anew(self, data: st.DataObject, subscription: dict[str, Any]) -> None:
        client = data.draw(st.sampled_from(self.clients))
        client.subscription = subscription
        self._beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), for_now=st.booleans())
    def leave(self, data: st.DataObject, for_now: bool) -> None:
        client = data.draw(st.sampled_from(self.clients))
        self.clients.remove(client)
        if client.epoch > 0:
            epoch = -2 if for_now and client.instance else -1
            self.shell.beat_later(client.member_id, epoch, instance=client.instance)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        self.clients.remove(data.draw(st.sampled_from(self.clients)))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def lose_an_answer(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.clients))
        self._listen()
        client.call = None
        self._send(client)
        client.call = None

    def _beat(self, client: Client) -> None:
        self._listen()
        if client.call is None:
            self._send(client)
            self._listen()

    def _send(self, client: Client) -> None:
        subscription = {"topics": [], "regex": "", **client.subscription}
        client.call = self.shell.beat_later(
            client.member_id,
            client.epoch,
            owned=client.owned,
            instance=client.instance,
            rebalance_ms=REBALANCE_MS,
            **subscription,
        )

    def _listen(self) -> None:
        for client in self.clients:
            if client.call is not None and client.call.is_answered:
                response, client.call = client.call.response, None
                self._take(client, response)

    def _take(self, client: Client, response: consumer_group_heartbeat.Response) -> None:
        error = ErrorCode(response.error_code)
        if error in (
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
            ErrorCode.FENCED_INSTANCE_ID,
        ):
            client.lose_all()
        elif error is ErrorCode.NONE:
            assert response.member_epoch >= client.epoch
            client.epoch = response.member_epoch
            if response.assignment is not None:
                if client.wanted != assigned(response):
                    client.told_at_s = self.shell.now.monotonic_s
                client.wanted = assigned(response)
                is_revoking = any(
                    indexes - client.wanted.get(topic, frozenset())
                    for topic, indexes in client.owned.items()
                )
                if not is_revoking:
                    client.owned = client.wanted
        else:
            assert error in (
                ErrorCode.UNRELEASED_INSTANCE_ID,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.NOT_COORDINATOR,
            ), response.error_message

    # --- the world -------------------------------------------------------------------------

    @rule(steps=st.integers(1, 8))
    def let_time_pass(self, steps: int) -> None:
        """All clients send heartbeats, and none revokes too late: they know their timeouts."""
        for _ in range(steps):
            for client in self.clients:
                if self.shell.now.monotonic_s - client.told_at_s > REBALANCE_MS / 2000:
                    client.revoke()
                self._beat(client)
            self.shell.advance(3)

    @rule(name=st.sampled_from(TOPICS), count=st.integers(1, 5))
    def change_topic(self, name: str, count: int) -> None:
        topic = self.world.by_name(name)
        if topic is None:
            self.world.create(name, count)
        elif topic.partition_count < count:
            self.world.grow(name, count)
        else:
            self.world.delete(name)
        self.shell.topics_changed(name)

    @rule(holds=st.booleans())
    def hold_commits(self, holds: bool) -> None:
        self.shell.holds_commits = holds
        if not holds:
            self.shell.commit_all()

    @precondition(lambda self: self.shell.uncommitted)
    @rule()
    def commit_one(self) -> None:
        self.shell.commit_one()

    @rule(fails=st.booleans())
    def let_appends_fail(self, fails: bool) -> None:
        self.shell.append_error = ErrorCode.NOT_ENOUGH_REPLICAS if fails else ErrorCode.NONE

    @rule(keeps=st.booleans())
    def fail_over(self, keeps: bool) -> None:
        """Another broker takes over; what was not committed may be lost."""
        self._listen()
        self.shell = self.shell.restart(keeps_uncommitted=keeps)
        for client in self.clients:
            client.call = None  # the connection is gone
        if not keeps:
            self.group_epoch = 0  # the epochs that were lost were never sent

    # --- what must hold --------------------------------------------------------------------

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.shell.shard._context.groups.get(GROUP)
        assert group is None or isinstance(group, ConsumerGroup)
        return group

    @invariant()
    def no_partition_is_read_by_two(self) -> None:
        self._listen()
        readers: dict[tuple[bytes, int], str] = {}
        group = self.group
        members = {} if group is None else group.members
        for client in self.clients:
            if client.member_id not in members:
                continue  # it does not know yet that it was removed; its commits are refused
            for topic_id, indexes in client.owned.items():
                for index in indexes:
                    other = readers.setdefault((topic_id, index), client.member_id)
                    assert other == client.member_id

    @invariant()
    def epochs_are_in_order_and_never_go_back(self) -> None:
        group = self.group
        if group is None:
            return
        assert group.epoch >= self.group_epoch
        self.group_epoch = group.epoch
        assert group.assignment_epoch <= group.epoch
        assert all(one.epoch <= group.assignment_epoch for one in group.members.values())

    @invariant()
    def no_partition_belongs_to_two_members(self) -> None:
        group = self.group
        held: dict[tuple[bytes, int], str] = {}
        for member in () if group is None else group.members.values():
            for partitions in (member.assigned, member.revoking):
                for topic_id, indexes in partitions.items():
                    for index in indexes:
                        assert (topic_id, index) not in held
                        held[topic_id, index] = member.member_id
        assert group is None or group._owners == held

    @invariant()
    def the_log_adds_up_to_the_state(self) -> None:
        live = self.group
        loaded = ConsumerShell(
            self.world, log=self.shell.log, now=self.shell.now
        ).shard._context.groups.get(GROUP)
        if live is None or loaded is None:
            assert live is loaded
            return
        assert isinstance(loaded, ConsumerGroup)
        assert (loaded.members, loaded.targets) == (live.members, live.targets)
        assert loaded.assignment_epoch == live.assignment_epoch

    def teardown(self) -> None:
        """Trouble ends: everybody gets what the target says, and all of it is read."""
        self.shell.append_error = ErrorCode.NONE
        self.hold_commits(holds=False)
        for _ in range(SESSION_S // 3 + 15):
            self.let_time_pass(1)
            self.no_partition_is_read_by_two()
        group = self.group
        if group is None or not self.clients:
            assert not self.clients
            return
        assert group.state_name == "Stable"
        assert group.members.keys() == {one.member_id for one in self.clients}
        read: set[tuple[bytes, int]] = set()
        for client in self.clients:
            assert client.owned == group.target(client.member_id)
            read |= {(topic, i) for topic, indexes in client.owned.items() for i in indexes}
        assert read == {
            (topic.topic_id, index)
            for name in group.subscribed_topics
            if (topic := self.world.by_name(name)) is not None
            for index in range(topic.partition_count)
        }


TestConsumerGroups = ConsumerGroupMachine.TestCase
TestConsumerGroups.settings = settings(stateful_step_count=30)
