"""One run of the simulation of a streams group, and what has to be true of it.

Any number of seeds: `python -m tests.simulation.groups.streams_simulation --seeds 1000`.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

from minikafka.coordinator.group.streams.tasks import TaskId
from minikafka.lab.simulation.kit.invariants import require
from minikafka.lab.simulation.kit.run import Outcome, traced
from tests.coordinator.group.streams.streams_shell import StreamsShell
from tests.simulation.groups.streams_members import (
    SOURCES,
    STATEFUL,
    StreamsCoordinator,
    StreamsMember,
)
from tests.simulation.groups.world import GROUP, SETTINGS, World
from tests.simulation.kit.command import run_seeds

MODULE = "tests.simulation.groups.streams_simulation"
STORM_S = 120.0
CALM_S = 120.0
MEMBERS_MAX = 6
PROCESSES = ("p1", "p2", "p3")
HOMES: dict[str | None, str] = {"a": "p1", "b": "p2"}
"""The processes of static members: they come back where they were."""
INTERNAL = ("by-plane", "counts")


class Simulation:
    """One group, its members and coordinators, and a nemesis."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = World(seed)
        self.coordinator = StreamsCoordinator(self.world)
        self.counts: Counter[str] = Counter()
        self.members: list[StreamsMember] = []
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
            self._grow_fleet()
            self.world.run_until(STORM_S + CALM_S / 2)
            self._check_assigned()
            self.coordinator.fail_over()
            self._grow_fleet()
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
        name, process = f"m{self._made}", HOMES.get(instance) or dice.choice(PROCESSES)
        self.world.note("{} of {} joins as {}", name, process, instance)
        member = StreamsMember(self.world, self.coordinator, name, instance, process, self.counts)
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
                self._change_fleet()
            case 8:
                self._delete(dice.choice(INTERNAL))
            case _:
                pass
        self.world.after(dice.uniform(0.5, 6.0), self._trouble)

    def _change_fleet(self) -> None:
        """A topic without internal ones behind it, whose partition counts are decided for ever."""
        topic = self.world.topics.by_name("fleet")
        if topic is None or topic.partition_count < 6:
            self._grow_fleet()
        elif self.world.dice.random() < 0.5:
            self._delete("fleet")

    def _grow_fleet(self) -> None:
        topics = self.world.topics
        topic = topics.by_name("fleet")
        if topic is None:
            topics.create("fleet", 2)
        else:
            topics.grow("fleet", topic.partition_count + 1)
        self.coordinator.topics_changed("fleet")

    def _delete(self, name: str) -> None:
        if self.world.topics.by_name(name) is not None:
            self.world.topics.delete(name)
            self.coordinator.topics_changed(name)

    # --- what must hold --------------------------------------------------------------------

    def _look(self) -> None:
        """Nobody shares an active task or a directory; commits come from owners; epochs grow."""
        group = self.coordinator.streams if self.coordinator.is_up else None
        if group is not None:
            self._check_owners(set(group.members))
            if self._term != self.coordinator.terms:
                self._term, self._epoch = self.coordinator.terms, 0
            require(group.epoch >= self._epoch, "group epochs", f"{self._epoch}, {group.epoch}")
            require(
                group.epoch >= group.assignment_epoch
                and all(one.epoch <= group.assignment_epoch for one in group.members.values()),
                "epochs",
                f"group {group.epoch}, assignment {group.assignment_epoch}, {group.members}",
            )
            self._epoch = group.epoch
        for member in self.members:
            member.commit()
        self.world.after(0.25, self._look)

    def _check_owners(self, known: set[str]) -> None:
        """Who is not known was removed, does not know it yet, and cannot commit."""
        processors: dict[TaskId, str] = {}
        directories: dict[tuple[str, TaskId], str] = {}
        for member in self.members:
            if member.member_id not in known:
                continue
            for task in member.owned.active:
                other = processors.setdefault(task, member.member_id)
                require(
                    other == member.member_id,
                    "one processor",
                    f"{other} and {member.member_id} process {task}",
                )
            for task in member.owned.active | member.owned.standby:
                other = directories.setdefault((member.process, task), member.member_id)
                require(
                    other == member.member_id,
                    "one thread",
                    f"{other} and {member.member_id} of {member.process} have {task}",
                )

    def _check_loaded(self) -> None:
        """What members were told is what the next coordinator knows."""
        group = self.coordinator.streams
        for member in self.members:
            if member.epoch > 0 and member.member_id in self.coordinator.members_at_death:
                known = None if group is None else group.members.get(member.member_id)
                require(
                    known is not None and known.epoch >= member.epoch,
                    "answers are committed",
                    f"{member.member_id} was told epoch {member.epoch}, and known is {known}",
                )

    def _check_end(self) -> None:
        group, members = self.coordinator.streams, self.members
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
        """Every member has what its target says, and together they have everything."""
        group = self.coordinator.streams
        if group is None or not self.members:
            return
        for member in self.members:
            if member.member_id in group.members:
                require(
                    member.owned == group.target(member.member_id),
                    "convergence",
                    f"{member.member_id} has {member.owned}",
                )
        counts = {
            one: topic.partition_count
            for one, name in SOURCES.items()
            if (topic := self.world.topics.by_name(name)) is not None
        }
        wanted = Counter(TaskId(one, n) for one, count in counts.items() for n in range(count))
        held = Counter(task for target in group.targets.values() for task in target.active)
        require(held == wanted, "convergence", f"active are {held}, and there are {wanted}")
        processes = {one.identity.process_id for one in group.members.values()}
        copies = Counter(task for target in group.targets.values() for task in target.standby)
        standbys = 1 if len(processes) > 1 else 0
        expected = Counter(
            {task: standbys for task in wanted if standbys and task.subtopology_id in STATEFUL}
        )
        require(copies == expected, "convergence", f"standbys are {copies}, not {expected}")

    def _check_log(self) -> None:
        """Whoever coordinates next knows the same."""
        group = self.coordinator.streams
        loaded = StreamsShell(
            self.world.topics, of_group=SETTINGS, log=self.coordinator.log, now=self.world.clocks
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


if __name__ == "__main__":
    sys.exit(run_seeds(MODULE, lambda seed, _: run_seed(seed), seeds=1000))
