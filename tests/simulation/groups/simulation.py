"""One run of the group simulation, and what has to be true of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from minikafka.lab.simulation.kit.invariants import require
from minikafka.lab.simulation.kit.run import Outcome, traced
from tests.coordinator.group.consumer.consumer_shell import ConsumerShell
from tests.simulation.groups.members import Member
from tests.simulation.groups.world import GROUP, Coordinator, World

MODULE = "tests.simulation.groups"
STORM_S = 120.0
CALM_S = 120.0
MEMBERS_MAX = 6
SUBSCRIPTIONS: tuple[dict[str, Any], ...] = (
    {"topics": ["flights"]},
    {"topics": ["flights", "fleet"]},
    {"regex": "fl.*"},
    {"topics": ["airports"], "regex": "flights"},
)
TOPICS = ("flights", "fleet", "airports")


class Simulation:
    """One group, its members and coordinators, and a nemesis."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = World(seed)
        self.coordinator = Coordinator(self.world)
        self.counts: Counter[str] = Counter()
        self.members: list[Member] = []
        self.coordinator.on_loaded = self._check_loaded
        self._made = 0
        self._epoch = 0
        self._term = 0

    def run(self) -> Outcome:
        """A storm, then calm, then everybody has to have its target.

        Raises:
            SimulationFailed: a promise was broken.
        """
        with traced(MODULE, self.seed, self.world.trace):
            for _ in range(3):
                self._join()
            self._trouble()
            self._look()
            self.world.run_until(STORM_S)
            self.world.is_calm = True
            for member in self.members:
                member.is_stuck = False
            self.world.run_until(STORM_S + CALM_S / 4)
            self._change_topic_at_last()
            self.world.run_until(STORM_S + CALM_S)
            self._check_end()
        return Outcome(self.seed, self.world.now, self.counts, self.world.whole_trace)

    # --- what happens ----------------------------------------------------------------------

    def _join(self) -> None:
        dice = self.world.dice
        self._made += 1
        used = {member.instance for member in self.members}
        instance = dice.choice((None, None, "a", "b"))
        if instance in used and dice.random() < 0.8:
            instance = None
        subscription = dice.choice(SUBSCRIPTIONS)
        name = f"m{self._made}"
        self.world.note("{} joins as {} with {}", name, instance, subscription)
        member = Member(self.world, self.coordinator, name, instance, subscription, self.counts)
        self.members.append(member)

    def _trouble(self) -> None:
        if self.world.is_calm:
            return
        dice = self.world.dice
        member = dice.choice(self.members) if self.members else None
        match dice.randrange(10):
            case 0 | 1:
                self.coordinator.fail_over()
                self.counts["failovers"] += 1
            case 2 | 3 if len(self.members) < MEMBERS_MAX:
                self._join()
            case 4 if member is not None:
                self.members.remove(member)
                member.die()
            case 5 if member is not None:
                self.members.remove(member)
                member.leave(-2 if member.instance and dice.random() < 0.7 else -1)
            case 6 if member is not None:
                member.is_stuck = not member.is_stuck
            case 7:
                self._change_topic(dice.choice(TOPICS))
            case 8 if member is not None:
                member.subscription = dice.choice(SUBSCRIPTIONS)
            case _:
                pass
        self.world.after(dice.uniform(0.5, 6.0), self._trouble)

    def _change_topic(self, name: str) -> None:
        topics, count = self.world.topics, self.world.dice.randint(1, 6)
        topic = topics.by_name(name)
        if topic is None:
            topics.create(name, count)
        elif topic.partition_count < count:
            topics.grow(name, count)
        elif self.world.dice.random() < 0.3:
            topics.delete(name)
        self.coordinator.topics_changed(name)

    def _change_topic_at_last(self) -> None:
        """One topic grows, and one is created while nobody coordinates."""
        topics = self.world.topics
        flights = topics.by_name("flights")
        if flights is None:
            topics.create("flights", 3)
        else:
            topics.grow("flights", flights.partition_count + 1)
        self.coordinator.topics_changed("flights")
        self.world.run_until(self.world.now + CALM_S / 4)
        self._check_assigned()
        self.coordinator.fail_over()
        topics.create("flotilla", 2)
        self.coordinator.topics_changed("flotilla")

    # --- what must hold --------------------------------------------------------------------

    def _look(self) -> None:
        """No two members read the same; commits come from owners; epochs never go back."""
        group = self.coordinator.group if self.coordinator.is_up else None
        if group is not None:
            readers: dict[tuple[bytes, int], str] = {}
            for member in self.members:
                if member.member_id not in group.members:
                    continue  # it does not know yet that it was removed, and cannot commit
                for topic_id, indexes in member.owned.items():
                    for index in indexes:
                        other = readers.setdefault((topic_id, index), member.member_id)
                        require(
                            other == member.member_id,
                            "one reader",
                            f"{other} and {member.member_id} read {topic_id[-1]}-{index}",
                        )
            if self._term != self.coordinator.terms:
                self._term, self._epoch = self.coordinator.terms, 0
            require(group.epoch >= self._epoch, "group epochs", f"{self._epoch}, {group.epoch}")
            self._epoch = group.epoch
        for member in self.members:
            member.commit()
        self.world.after(0.25, self._look)

    def _check_loaded(self) -> None:
        """What members were told is what the next coordinator knows."""
        group = self.coordinator.group
        for member in self.members:
            if member.epoch > 0 and member.member_id in self.coordinator.members_at_death:
                known = None if group is None else group.members.get(member.member_id)
                require(
                    known is not None and known.epoch >= member.epoch,
                    "answers are committed",
                    f"{member.member_id} was told epoch {member.epoch}, and known is {known}",
                )

    def _check_end(self) -> None:
        group, members = self.coordinator.group, self.members
        if not members:
            return
        require(group is not None, "convergence", "the group is gone")
        assert group is not None
        living = {one.instance or one.member_id: one for one in members}
        require(
            len(group.members) == len(living),
            "convergence",
            f"members {sorted(group.members)}, and alive are {[m.member_id for m in members]}",
        )
        require(group.state_name == "Stable", "convergence", group.state_name)
        self._check_assigned()
        self._check_log()

    def _check_assigned(self) -> None:
        """Every member reads what its target says, and together they read everything."""
        group = self.coordinator.group
        if group is None or not self.members:
            return
        read: set[tuple[bytes, int]] = set()
        for member in self.members:
            if member.member_id in group.members:
                require(
                    member.owned == group.target(member.member_id),
                    "convergence",
                    f"{member.member_id} reads {member.owned}",
                )
                wanted = member.subscription.get("topics", [])
                regex = member.subscription.get("regex")
                matched = self.world.topics.matching(regex) if regex else frozenset[str]()
                read |= {
                    (topic.topic_id, index)
                    for name in (*wanted, *matched)
                    if (topic := self.world.topics.by_name(name)) is not None
                    for index in range(topic.partition_count)
                }
        held = {
            (topic_id, index)
            for target in group.targets.values()
            for topic_id, indexes in target.items()
            for index in indexes
        }
        require(held == read, "convergence", f"assigned are {len(held)} of {len(read)}")

    def _check_log(self) -> None:
        """Whoever coordinates next knows the same."""
        group = self.coordinator.group
        loaded = ConsumerShell(
            self.world.topics, log=self.coordinator.log, now=self.world.clocks
        ).shard._context.groups.get(GROUP)
        stored: Any = loaded
        assert group is not None
        require(
            stored is not None
            and (stored.members, stored.targets) == (group.members, group.targets),
            "replay",
            "the log adds up to another state",
        )


def run_seed(seed: int) -> Outcome:
    return Simulation(seed).run()
