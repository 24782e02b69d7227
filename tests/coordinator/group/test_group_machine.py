"""A group under random clients, time, failed writes and failovers, and what must always hold.

- No client gets a generation that is lower than an earlier one; one generation has one leader
  and one list of members.
- Only a member of the newest generation commits, and no acknowledged offset is lost or goes back.
- A shard that loads the log stores the same as the one that wrote it.
- Every request is answered exactly once, every member that does not wait has a session, and when
  all clients are gone the group is empty and no timer is left but that of the clean-up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

from minikafka.coordinator.group.classic.classic_group import ClassicGroup
from minikafka.coordinator.group.classic.states import GroupState
from minikafka.coordinator.group.context import ShardContext, Timer, TimerKind
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import join_group, sync_group
from tests.coordinator.group.harness import (
    GROUP,
    TOPIC,
    Call,
    Shell,
    commit_error,
    member,
    subscription,
)

OFFERS = [
    (("range", subscription(TOPIC)),),
    (("range", subscription(TOPIC, "other")), ("sticky", b"")),
    (("sticky", b""), ("range", subscription("other"))),
]
INSTANCES = ["alpha", "beta"]
MEMBERS_MAX = 4
LOG_ERRORS = [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE]


@dataclass
class Client:
    """What one consumer knows."""

    version: int
    instance: str | None
    protocols: tuple[tuple[str, bytes], ...]
    session_ms: int
    rebalance_ms: int
    member_id: str = ""
    generation: int = -1
    previous_generation: int = -1
    members: tuple[str, ...] = ()
    must_join: bool = True
    must_sync: bool = False
    joining: Call[join_group.Response] | None = None
    syncing: Call[sync_group.Response] | None = None


def who_is(member_id: str) -> str:
    """A static member keeps its instance id while its member id changes."""
    name = member_id.rsplit("-", 1)[0]
    return name if name in INSTANCES else member_id


class GroupMachine(RuleBasedStateMachine):
    """One group, several clients, one coordinator after the other."""

    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.shell = Shell(
            group_max_size=MEMBERS_MAX, pending_members_max=3, tombstones_per_append_max=2
        )
        self.alive: list[Client] = []
        self.calls: list[Call[Any]] = []
        self.commits: list[tuple[Call[Any], int, int]] = []
        self.told_generation = 0
        self.leaders: dict[int, str] = {}
        self.members: dict[int, frozenset[str]] = {}
        self.last_offset = 0
        self.offset_floor = -1
        self.is_deleting = False
        self.has_lost_writes = False

    # --- clients ---------------------------------------------------------------------------

    @initialize(
        target=clients,
        instances=st.lists(st.sampled_from([None, *INSTANCES]), max_size=3),
        version=st.sampled_from([5, 9]),
    )
    def begin_with_a_group(
        self, instances: list[str | None], version: int
    ) -> MultipleResults[Client]:
        started = [self.start(version, name, OFFERS[1], 20_000, 30_000) for name in instances]
        for _ in range(4):
            self.everybody_works(4.0)
        return multiple(*started)  # type: ignore[arg-type]  # start() looks like a rule's result

    @rule(
        target=clients,
        version=st.sampled_from([0, 3, 4, 8, 9]),
        instance=st.sampled_from([None, None, *INSTANCES]),
        protocols=st.sampled_from(OFFERS),
        session_ms=st.sampled_from([6_000, 20_000]),
        rebalance_ms=st.sampled_from([5_000, 30_000]),
    )
    def start(
        self,
        version: int,
        instance: str | None,
        protocols: tuple[tuple[str, bytes], ...],
        session_ms: int,
        rebalance_ms: int,
    ) -> Client:
        client = Client(
            version, instance if version >= 5 else None, protocols, session_ms, rebalance_ms
        )
        self.alive.append(client)
        self._join(client)
        return client

    @rule(client=clients, protocols=st.none() | st.sampled_from(OFFERS))
    def join(self, client: Client, protocols: tuple[tuple[str, bytes], ...] | None) -> None:
        client.protocols = protocols or client.protocols
        self._join(client)

    @rule(seconds=st.sampled_from([0.0, 3.0, 4.0]))
    def everybody_works(self, seconds: float) -> None:
        """All clients do what their state requires, as real ones would."""
        for client in self.alive:
            if client.joining is not None or client.syncing is not None:
                continue
            if client.must_join:
                self._join(client)
            elif client.must_sync:
                self.sync(client)
            else:
                self.heartbeat(client)
        self.pass_time(seconds)

    def _join(self, client: Client) -> None:
        client.joining = self.shell.join(
            client.member_id,
            version=client.version,
            instance=client.instance,
            protocols=client.protocols,
            session_ms=client.session_ms,
            rebalance_ms=client.rebalance_ms,
        )
        client.syncing = None
        self.calls.append(client.joining)
        self._listen()

    @rule(client=clients)
    def sync(self, client: Client) -> None:
        assignments = {to: f"{client.generation}:{to}".encode() for to in client.members}
        client.syncing = self.shell.sync(
            client.member_id, client.generation, assignments, instance=client.instance
        )
        self.calls.append(client.syncing)
        self._listen()

    @rule(client=clients)
    def heartbeat(self, client: Client) -> None:
        error = self.shell.heartbeat(client.member_id, client.generation, instance=client.instance)
        if error is ErrorCode.NONE:
            assert client.generation == self.told_generation
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            client.member_id = ""
        client.must_join = error is not ErrorCode.NONE

    @rule(client=clients)
    def vanish(self, client: Client) -> None:
        """It is killed, and its requests with it."""
        if client in self.alive:
            self.alive.remove(client)

    @rule(client=clients, by_name=st.booleans())
    def leave(self, client: Client, by_name: bool) -> None:
        is_admin = by_name and client.instance is not None
        named = member("" if is_admin else client.member_id, client.instance)
        self.shell.leave(named)
        self._listen()

    @rule(client=clients, is_late=st.booleans())
    def commit(self, client: Client, is_late: bool) -> None:
        generation = client.previous_generation if is_late else client.generation
        self._commit(client.member_id, generation, client.instance)

    @rule()
    def commit_without_group(self) -> None:
        self._commit("", -1, None)

    def _commit(self, member_id: str, generation: int, instance: str | None) -> None:
        self.last_offset += 1
        state = self.shell.state()
        call = self.shell.commit_later(
            {(TOPIC, 0): self.last_offset},
            member_id=member_id,
            generation=generation,
            instance=instance,
        )
        self.calls.append(call)
        self.commits.append((call, generation, self.last_offset))
        is_taken = not call.is_answered or commit_error(call) is ErrorCode.NONE
        if is_taken and generation < 0:
            assert state in ("Empty", "Dead")
        elif is_taken:
            assert state in ("Stable", "PreparingRebalance")
            assert generation == self.told_generation
            # Only the leader gets the list of members, and it may have vanished.
            if generation in self.members:
                assert who_is(member_id) in self.members[generation]
        self._listen()

    # --- administrators and time -----------------------------------------------------------

    @rule()
    def delete_offset(self) -> None:
        self.calls.append(self.shell.delete_offsets((TOPIC, 0)))
        self.is_deleting = True
        self._listen()

    @rule()
    def delete_group(self) -> None:
        # A lost deletion would bring the group's whole history back: too much for the model.
        self.replicas_catch_up()
        state = self.shell.state()
        call = self.shell.delete_groups(GROUP)
        expected = {
            "Empty": ErrorCode.NONE,
            "Dead": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        error = call.response.results[0].error_code
        assert error == expected.get(state, ErrorCode.NON_EMPTY_GROUP)
        if error == ErrorCode.NONE:
            self._forget_group()
        self._listen()

    def _forget_group(self) -> None:
        """A deleted group counts from the start, so its history is over."""
        self.offset_floor = -1
        self.told_generation = 0
        self.leaders.clear()
        self.members.clear()
        self.commits.clear()

    @rule(seconds=st.sampled_from([0.5, 3.0, 4.0, 7.0, 20.0]))
    def pass_time(self, seconds: float) -> None:
        self.shell.advance(seconds)
        self.has_lost_writes |= bool(self.shell.uncommitted)  # may have been given up
        self._listen()

    # --- the log ---------------------------------------------------------------------------

    @rule(is_long=st.booleans())
    def replicas_fall_behind(self, is_long: bool) -> None:
        self.shell.holds_commits = True
        if not is_long:
            self.everybody_works(0.0)
            self.replicas_catch_up()

    @rule()
    def replicas_catch_up(self) -> None:
        self.shell.holds_commits = False
        self.shell.commit_all()
        self._listen()

    @rule()
    def replicas_take_one_write(self) -> None:
        if self.shell.uncommitted:
            self.shell.commit_one()
        self._listen()

    @rule(error=st.sampled_from(LOG_ERRORS))
    def an_append_fails(self, error: ErrorCode) -> None:
        self.shell.append_error = error
        for client in self.alive:
            self.commit(client, is_late=False)
        self.everybody_works(3.0)
        self.shell.append_error = ErrorCode.NONE
        self.has_lost_writes = True

    @rule(is_orderly=st.booleans(), keeps_uncommitted=st.booleans())
    def fail_over(self, is_orderly: bool, keeps_uncommitted: bool) -> None:
        if is_orderly:
            self.shell.carry_out(self.shell.shard.resigned())
            assert all(call.is_answered for call in self.calls)
        self._listen()
        self.calls.clear()
        self.commits.clear()
        for client in self.alive:
            client.joining = client.syncing = None
        self.shell = self.shell.restart(keeps_uncommitted=keeps_uncommitted)
        self.has_lost_writes = False

    # --- what clients learn ----------------------------------------------------------------

    def _listen(self) -> None:
        for client in self.alive:
            if client.joining is not None and client.joining.is_answered:
                self._joined(client, client.joining.response)
                client.joining = None
            if client.syncing is not None and client.syncing.is_answered:
                response = client.syncing.response
                if response.error_code == ErrorCode.NONE and response.assignment:
                    assert response.assignment.startswith(f"{client.generation}:".encode())
                client.must_sync = False
                client.must_join = response.error_code != ErrorCode.NONE
                client.syncing = None
        for call, _, offset in self.commits:
            if call.is_answered and commit_error(call) is ErrorCode.NONE:
                self.offset_floor = max(self.offset_floor, offset)
        self.commits = [commit for commit in self.commits if not commit[0].is_answered]

    def _joined(self, client: Client, response: join_group.Response) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
        elif response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            client.member_id = ""
        elif response.error_code == ErrorCode.NONE:
            self._check_generation(response)
            client.member_id = response.member_id
            client.previous_generation, client.generation = (
                client.generation,
                response.generation_id,
            )
            client.members = tuple(m.member_id for m in response.members)
            client.must_join, client.must_sync = False, True

    def _check_generation(self, response: join_group.Response) -> None:
        generation = response.generation_id
        assert generation >= self.told_generation
        self.told_generation = generation
        if response.members:
            assert response.leader == response.member_id
            names = frozenset(who_is(other.member_id) for other in response.members)
            assert self.members.setdefault(generation, names) == names
            assert len(names) == len(response.members)
        leader = who_is(response.leader)
        assert self.leaders.setdefault(generation, leader) == leader

    # --- what must hold --------------------------------------------------------------------

    @property
    def context(self) -> ShardContext:
        return self.shell.shard._context

    @invariant()
    def no_acknowledged_offset_is_lost(self) -> None:
        if self.is_deleting:
            self.offset_floor = -1
            self.is_deleting = bool(self.shell.uncommitted)
        assert self.offset_floor <= self.shell.offset() <= self.last_offset
        self.offset_floor = max(self.offset_floor, self.shell.offset())

    @invariant()
    def every_member_waits_or_has_a_session(self) -> None:
        timers = self.context.timers
        for group in self.context.groups.values():
            assert isinstance(group, ClassicGroup)
            for one in group.members.values():
                is_waiting = one.waiting_join is not None or one.waiting_sync is not None
                assert is_waiting or Timer(TimerKind.SESSION, GROUP, one.member_id) in timers
            assert all(Timer(TimerKind.SESSION, GROUP, p) in timers for p in group.pending_members)
            is_collecting = group.is_in(GroupState.PREPARING_REBALANCE)
            has_join_timer = Timer(TimerKind.JOIN, GROUP) in timers
            assert has_join_timer == (is_collecting and not group.is_join_closing)
            assert (Timer(TimerKind.SYNC, GROUP) in timers) == bool(group.pending_sync)
            assert group.pending_sync <= set(group.members)
            waiting = sum(one.waiting_join is not None for one in group.members.values())
            assert group.joined_count() == waiting <= MEMBERS_MAX
            assert (group.leader_id in group.members) == bool(group.members)

    @invariant()
    def loading_the_log_gives_the_same_stored_state(self) -> None:
        loaded = self.shell.restart().shard._context
        assert dict(loaded.offsets.stored(GROUP)) == dict(self.context.offsets.stored(GROUP))
        live = self.context.groups.get(GROUP)
        stored = loaded.groups.get(GROUP)
        if live is None or stored is None:
            # A group is not stored before its first generation.
            assert stored is None
            assert live is None or (isinstance(live, ClassicGroup) and live.generation == 0)
            return
        assert isinstance(live, ClassicGroup)
        assert isinstance(stored, ClassicGroup)
        assert stored.generation == live.generation
        if self.has_lost_writes or not live.is_in(GroupState.STABLE, GroupState.EMPTY):
            return
        assert stored.state is live.state
        assert stored.leader_id == live.leader_id
        assert stored.current_state_timestamp_ms == live.current_state_timestamp_ms
        assert [
            (m.member_id, m.group_instance_id, m.session_timeout_ms, m.assignment)
            for m in stored.members.values()
        ] == [
            (m.member_id, m.group_instance_id, m.session_timeout_ms, m.assignment)
            for m in live.members.values()
        ]

    def teardown(self) -> None:
        """All clients have gone, the log works: everything ends by timeouts alone."""
        self.shell.holds_commits = False
        self.shell.commit_all()
        self.shell.advance(599)
        self._listen()
        assert all(call.is_answered for call in self.calls)
        assert self.shell.state() in ("Empty", "Dead")
        assert len(self.context.timers) == 1
        assert Timer(TimerKind.RETENTION) in self.context.timers
        assert not self.context.writes
        assert not self.context.offsets._unsettled
        if self.shell.state() == "Empty" and self.told_generation:
            generation, _ = self.shell.stable_group(1)
            assert generation > self.told_generation


TestGroup = GroupMachine.TestCase
TestGroup.settings = settings(stateful_step_count=60)
