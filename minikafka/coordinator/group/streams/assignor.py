"""The sticky assignor: which member is to have which task, in which role.

Active tasks are spread evenly over the members (the threads of all instances), and stay where they
are, or go where a standby has their state, as far as that is even. A standby of a task is kept by
another instance (process) than the active task and its other standbys, because it is there for the
case that an instance fails.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

from .tasks import Assignment, TaskId

NAME = "sticky"


class MemberSpec(NamedTuple):
    """What is known of a member.

    Attributes:
        process_id: the instance that it is a thread of.
        before: its part of the assignment before.
    """

    process_id: str
    before: Assignment


def assign(
    members: Mapping[str, MemberSpec],
    task_counts: Mapping[str, int],
    stateful: Collection[str],
    standbys: int,
) -> dict[str, Assignment]:
    """The target assignment by member id.

    Args:
        members: all members of the group.
        task_counts: the number of tasks by subtopology id.
        stateful: the ids of subtopologies that have state: only they have standby tasks.
        standbys: how many standbys a task is to have, if there are enough instances.
    """
    if not members:
        return {}
    state = _State(members)
    state.assign_active([TaskId(one, index) for one, index in _all(task_counts)])
    copied = [TaskId(one, index) for one, index in _all(task_counts) if one in stateful]
    for _ in range(min(standbys, state.instances - 1)):
        for task in copied:
            state.assign_standby(task)
    return {
        member_id: Assignment(
            frozenset(state.active[member_id]), frozenset(state.standby[member_id])
        )
        for member_id in members
    }


def _all(task_counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return [(one, index) for one, count in sorted(task_counts.items()) for index in range(count)]


class _State:
    """An assignment in the making; a heap finds the least loaded, since there may be many."""

    def __init__(self, members: Mapping[str, MemberSpec]) -> None:
        self._members = members
        self._threads: dict[str, list[str]] = {}
        for one in sorted(members):
            self._threads.setdefault(members[one].process_id, []).append(one)
        # In turns: if not all members get equally many, then at least all instances do.
        rank = {one: place for its in self._threads.values() for place, one in enumerate(its)}
        self._order = sorted(members, key=lambda one: (rank[one], one))
        self.active: dict[str, set[TaskId]] = {one: set() for one in self._order}
        self.standby: dict[str, set[TaskId]] = {one: set() for one in self._order}
        self._load = dict.fromkeys(self._threads, 0)
        self._least = [(0.0, process_id) for process_id in self._threads]
        heapify(self._least)
        self._holders: dict[TaskId, set[str]] = {}
        self._was_active = {task: one for one in self._order for task in members[one].before.active}
        self._was_standby: dict[TaskId, list[str]] = {}
        for one in self._order:
            for task in members[one].before.standby | members[one].before.warmup:
                self._was_standby.setdefault(task, []).append(one)

    @property
    def instances(self) -> int:
        return len(self._threads)

    def _process(self, member_id: str) -> str:
        return self._members[member_id].process_id

    def _load_of(self, process_id: str) -> float:
        """Tasks for each thread of an instance."""
        return self._load[process_id] / len(self._threads[process_id])

    def _add(self, tasks: dict[str, set[TaskId]], member_id: str, task: TaskId) -> None:
        process_id = self._process(member_id)
        tasks[member_id].add(task)
        self._load[process_id] += 1
        heappush(self._least, (self._load_of(process_id), process_id))
        self._holders.setdefault(task, set()).add(process_id)

    # --- active tasks ----------------------------------------------------------------------

    def assign_active(self, tasks: list[TaskId]) -> None:
        least, larger_max = divmod(len(tasks), len(self._order))
        larger = 0  # members that have one task more than the others

        def give(member_id: str | None, task: TaskId) -> bool:
            nonlocal larger
            if member_id is None:
                return False
            count = len(self.active[member_id])
            if count > least or (count == least and larger == larger_max):
                return False
            larger += count == least
            self._add(self.active, member_id, task)
            return True

        left = [task for task in tasks if not give(self._was_active.get(task), task)]
        left = [
            task
            for task in left
            if not any(
                give(one, task)
                for one in sorted(self._was_standby.get(task, ()), key=self._active_count)
            )
        ]
        turns = [(len(self.active[one]), place) for place, one in enumerate(self._order)]
        heapify(turns)
        for task in left:
            count, place = turns[0]
            self._add(self.active, self._order[place], task)
            heapreplace(turns, (count + 1, place))

    def _active_count(self, member_id: str) -> int:
        return len(self.active[member_id])

    # --- standby tasks ---------------------------------------------------------------------

    def assign_standby(self, task: TaskId) -> None:
        """Give a task its next standby, on an instance that does not have the task yet."""
        taken = self._holders.get(task, set())
        load, process_id = self._least_loaded(taken)
        had = [*self._was_standby.get(task, ()), self._was_active.get(task)]
        kept = [
            one
            for one in had
            if one is not None
            and self._process(one) not in taken
            and self._load_of(self._process(one)) < load + 1
        ]
        candidates = kept or self._threads[process_id]
        self._add(self.standby, min(candidates, key=self._rank_for_standby), task)

    def _least_loaded(self, taken: Collection[str]) -> tuple[float, str]:
        """The load and id of an instance; there are more instances than are taken."""
        passed: list[tuple[float, str]] = []
        while True:
            entry = heappop(self._least)
            load, process_id = entry
            if load != self._load_of(process_id):
                continue  # there is a later entry for it
            passed.append(entry)
            if process_id not in taken:
                break
        for one in passed:
            heappush(self._least, one)
        return entry

    def _rank_for_standby(self, member_id: str) -> tuple[float, int, str]:
        size = len(self.active[member_id]) + len(self.standby[member_id])
        return self._load_of(self._process(member_id)), size, member_id
