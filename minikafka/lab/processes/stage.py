"""Where a run takes place: its topic, what is done to nodes, and what can be seen from outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeVar

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    create_topics,
    delete_topics,
    elect_leaders,
    find_coordinator,
    list_offsets,
    metadata,
)
from minikafka.protocol.schema import Request, Response

from ..ledger import Ledger
from ..matrix import TopicMode
from ..timeline import Event, EventKind
from . import link
from .target import Action, CannotError, Target

_ASK_S: Final = 2.0
_LOOK_AGAIN_S: Final = 0.02
_METADATA_VERSION: Final = 9

_Answer = TypeVar("_Answer", bound=Response)

KINDS: Final[Mapping[Action, EventKind]] = {
    Action.KILL: "kill",
    Action.STOP: "stop",
    Action.START: "start",
    Action.PAUSE: "pause",
    Action.RESUME: "resume",
    Action.ISOLATE: "cut",
    Action.HEAL: "heal",
    Action.FALL_BEHIND: "note",
    Action.JUMP_CLOCK: "clock",
    Action.LOSE_POWER: "power-loss",
}
_STATES: Final[Mapping[Action, dict[str, Any]]] = {
    Action.KILL: {"is_up": False, "is_leader": False},
    Action.STOP: {"is_up": False, "is_leader": False},
    Action.LOSE_POWER: {"is_up": False, "is_leader": False},
    Action.START: {"is_up": True, "is_paused": False},
    Action.PAUSE: {"is_paused": True},
    Action.RESUME: {"is_paused": False},
    Action.ISOLATE: {"is_cut": True},
    Action.HEAL: {"is_cut": False},
}

_SILENCING: Final = frozenset(
    {Action.KILL, Action.STOP, Action.PAUSE, Action.ISOLATE, Action.LOSE_POWER}
)


class Stage:
    """One run on a target.

    Args:
        target: the cluster.
        topic: a new one's name.
        mode: of the topic.
        partitions: how many.
        dice: what is left to chance.

    Attributes:
        ledger: what happens, written down while it does.
        connection: what any client of the lab needs here; its own options come before them.
        events: the same for the timeline.
        addresses: ``HOST:PORT`` of each node.
        faults: what went wrong, by its number.
        logs: offsets and values of each partition at the end.

    Raises:
        CannotError: the topic cannot be made.
    """

    def __init__(
        self, target: Target, topic: str, mode: TopicMode, partitions: int, dice: Random
    ) -> None:
        self.target = target
        self.connection = link.connection_options(target.properties)
        self.topic = topic
        self.mode = mode
        self.partitions = partitions
        self.dice = dice
        self.ledger = Ledger()
        self.events: list[Event] = []
        self.addresses: dict[int, str] = {}
        self.faults: dict[int, str] = {}
        self.logs: list[list[tuple[int, str]]] = []
        self._silent: set[int] = set()
        self._seen: dict[str, dict[str, Any]] = {}
        self._began = time.time()
        self.addresses = self._find_addresses()
        settings: dict[str, object] = {"min.insync.replicas": mode.min_insync}
        if mode.is_synced:
            settings["flush.messages"] = 1
        self.create_topic(topic, partitions, mode.replicas, settings)

    # --- what is written down ---

    def note(
        self,
        lane: str,
        kind: EventKind,
        text: str,
        *,
        record: str | None = None,
        to: str | None = None,
        state: dict[str, Any] | None = None,
        at: float | None = None,
    ) -> None:
        """Something happens; ``at`` is a `time.time`, None for now."""
        t = (time.time() if at is None else at) - self._began
        self.events.append(Event(max(t, 0.0), lane, kind, text, record=record, to=to, state=state))

    def look(self) -> None:
        """Note what has changed of the first partition: leader, epoch, ISR, end."""
        found = self.describe()
        if found is None or found.leader_id < 0:
            return
        end = self._end(found.leader_id)
        for node in self.addresses:
            lane = f"node-{node}"
            state: dict[str, Any] = {"is_leader": node == found.leader_id}
            if state["is_leader"]:
                state |= {"leader_epoch": found.leader_epoch, "isr": sorted(found.isr_nodes)}
                if end is not None:
                    state["high_watermark"] = end
            before = self._seen.get(lane, {})
            changed = {name: value for name, value in state.items() if before.get(name) != value}
            self._seen[lane] = {**before, **state}
            if not changed:
                continue
            if changed.get("is_leader"):
                text = f"leads with epoch {found.leader_epoch}"
                self.note(lane, "elect", text, state=changed)
            elif "isr" in changed:
                self.note(lane, "isr", f"ISR {state['isr']}", state=changed)
            elif "high_watermark" in changed:
                self.note(lane, "advance", f"high watermark {end}", state=changed)
            elif before:
                self.note(lane, "note", "leads no more", state=changed)

    # --- what is done ---

    def do(self, action: Action, node: int) -> None:
        """Do something to a node; see `Target.do`.

        Raises:
            CannotError: it failed.
        """
        if action in _SILENCING:
            self._silent.add(node)
        kind = KINDS.get(action, "note")
        self.note(f"node-{node}", kind, action.value, state=_STATES.get(action))
        self.target.do(action, node)
        if action is Action.HEAL:
            self._silent.clear()
        if action in {Action.START, Action.RESUME}:
            self._silent.discard(node)

    def restore(self) -> None:
        """Start all nodes that do not run together; see `Target.restore`.

        Raises:
            CannotError: one does not start.
        """
        self.target.restore()
        for node in sorted(self._silent):
            self.note(f"node-{node}", "start", "start", state=_STATES[Action.START])
        self._silent.clear()

    def create_topic(
        self, name: str, partitions: int, replicas: int, settings: Mapping[str, object]
    ) -> None:
        """Make a topic and wait for its leaders.

        Raises:
            CannotError: the cluster refused.
        """
        configs = [
            create_topics.CreatableTopicConfig(name=key, value=str(value))
            for key, value in settings.items()
        ]
        wanted = create_topics.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=[],
            configs=configs,
        )
        answer = self.ask(
            create_topics.Request(topics=[wanted], timeout_ms=30_000), 5, create_topics.Response
        ).topics[0]
        if answer.error_code not in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
            code = ErrorCode(answer.error_code).name
            raise CannotError(f"cannot create the topic {name}: {code}: {answer.error_message}")
        for partition in range(partitions):
            self.leader(partition, topic=name)

    def delete_topics(self, *names: str) -> None:
        """Delete topics; those that there are not are no error.

        Raises:
            CannotError: no broker answers.
        """
        self.ask(
            delete_topics.Request(topic_names=[*names], timeout_ms=30_000),
            4,
            delete_topics.Response,
        )

    def elect_unclean(self) -> None:
        """Let any replica that lives lead, as an operator does who gives up the last leader."""
        places = [
            elect_leaders.TopicPartitions(topic=self.topic, partitions=[*range(self.partitions)])
        ]
        self.ask(
            elect_leaders.Request(election_type=1, topic_partitions=places, timeout_ms=10_000),
            2,
            elect_leaders.Response,
        )

    # --- what is seen ---

    def ask(self, request: Request, version: int, kind: type[_Answer]) -> _Answer:
        """Ask any node that answers.

        Raises:
            CannotError: none does.
        """
        deadline = time.monotonic() + self.target.patience_s
        reason: OSError | None = None
        while True:
            places = [at for node, at in self.addresses.items() if node not in self._silent]
            for place in places or self.target.bootstrap.split(","):
                try:
                    return self._ask(place, request, version, kind)
                except OSError as error:
                    reason = error
            if time.monotonic() > deadline:
                raise CannotError(f"no broker of {self.target.bootstrap} answers: {reason}")
            time.sleep(_LOOK_AGAIN_S)

    def _ask(self, place: str, request: Request, version: int, kind: type[_Answer]) -> _Answer:
        """Ask one node.

        Raises:
            OSError: it does not answer.
        """
        options = self.connection
        return link.ask(place, request, version, kind, options=options, timeout_s=_ASK_S)

    def describe(self, partition: int = 0, topic: str | None = None) -> metadata.Partition | None:
        """A partition as a broker sees it; None if it knows none."""
        asked = metadata.Request(
            topics=[metadata.RequestTopic(name=topic or self.topic)],
            allow_auto_topic_creation=False,
        )
        for described in self.ask(asked, _METADATA_VERSION, metadata.Response).topics:
            for one in described.partitions:
                if one.partition_index == partition:
                    return one
        return None

    def leader(
        self, partition: int = 0, *, topic: str | None = None, other_than: int | None = None
    ) -> int:
        """The leader; waits until there is one.

        Raises:
            CannotError: no leader is found within the target's patience.
        """
        found = [-1]

        def is_led() -> bool:
            one = self.describe(partition, topic)
            found[0] = -1 if one is None else one.leader_id
            return found[0] >= 0 and found[0] != other_than and found[0] not in self._silent

        self.wait_until(is_led, f"{topic or self.topic}-{partition} has no leader")
        return found[0]

    def in_sync(self) -> Sequence[int]:
        """The ISR of the first partition."""
        found = self.describe()
        return [] if found is None else found.isr_nodes

    def coordinator(self, key: str, *, is_group: bool) -> int:
        """The node that coordinates a group or a transactional id; waits until there is one.

        Raises:
            CannotError: there is none within the target's patience.
        """
        asked = find_coordinator.Request(key=key, key_type=0 if is_group else 1)
        found: list[int] = []

        def is_found() -> bool:
            answer = self.ask(asked, 3, find_coordinator.Response)
            if not answer.error_code:
                found.append(answer.node_id)
            return bool(found)

        self.wait_until(is_found, f"{key} has no coordinator")
        return found[0]

    def answers(self, node: int) -> bool:
        """Whether a node answers now."""
        asked = metadata.Request(topics=[])
        try:
            self._ask(self.addresses[node], asked, _METADATA_VERSION, metadata.Response)
        except OSError:
            return False
        return True

    def wait_until(self, is_so: Callable[[], bool], what_else: str) -> None:
        """Wait for the cluster.

        Raises:
            CannotError: it is not so after the target's patience.
        """
        deadline = time.monotonic() + self.target.patience_s
        while not is_so():
            if time.monotonic() > deadline:
                raise CannotError(f"{what_else} after {self.target.patience_s:.0f} s")
            time.sleep(_LOOK_AGAIN_S)

    def wait_a_while(self, is_so: Callable[[], bool], seconds: float) -> bool:
        """Wait for something that need not happen; whether it has."""
        deadline = time.monotonic() + seconds
        while not (found := is_so()) and time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN_S)
        return found

    def wait_until_whole(self) -> None:
        """Wait until all replicas of the topic are in sync.

        Raises:
            CannotError: they are not after the target's patience.
        """

        def is_whole() -> bool:
            for partition in range(self.partitions):
                one = self.describe(partition)
                if one is None or one.leader_id < 0 or len(one.isr_nodes) < self.mode.replicas:
                    return False
            return True

        self.wait_until(is_whole, "replicas are not in sync")

    def _find_addresses(self) -> dict[int, str]:
        """Where the target's nodes are; one that has just started may not be known at once.

        Raises:
            CannotError: some stay unknown.
        """
        found: dict[int, str] = {}

        def are_all_known() -> bool:
            asked = metadata.Request(topics=[])
            answer = self.ask(asked, _METADATA_VERSION, metadata.Response)
            found.clear()
            found.update({one.node_id: f"{one.host}:{one.port}" for one in answer.brokers})
            return found.keys() >= set(self.target.nodes)

        nodes = ", ".join(str(node) for node in sorted(self.target.nodes))
        self.wait_until(are_all_known, f"no broker knows all of the nodes {nodes}")
        return found

    def ends(self) -> dict[int, int]:
        """The end of each partition, when all is calm.

        Raises:
            CannotError: a leader does not tell.
        """
        found: dict[int, int] = {}
        for partition in range(self.partitions):
            end = self._end(self.leader(partition), partition)
            if end is None:
                raise CannotError(f"the leader of {self.topic}-{partition} does not tell its end")
            found[partition] = end
        return found

    def _end(self, leader: int, number: int = 0) -> int | None:
        partition = list_offsets.Partition(
            partition_index=number, current_leader_epoch=-1, timestamp=-1
        )
        topic = list_offsets.Topic(name=self.topic, partitions=[partition])
        asked = list_offsets.Request(replica_id=-1, isolation_level=0, topics=[topic])
        try:
            answer = self._ask(self.addresses[leader], asked, 5, list_offsets.Response)
        except OSError:
            return None
        found = answer.topics[0].partitions[0]
        return None if found.error_code else found.offset
