"""Sets of tasks, and the three roles in which a member can have one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple


class TaskId(NamedTuple):
    """One task: a subtopology, and the partition of its source topics that it reads."""

    subtopology_id: str
    partition: int


class Role(Enum):
    ACTIVE = "active"
    """It processes records."""
    STANDBY = "standby"
    """It keeps a copy of the state, to take over."""
    WARMUP = "warm-up"
    """It builds a copy of the state, to become active when that is complete."""


Tasks = frozenset[TaskId]
NO_TASKS: Tasks = frozenset()


class Assignment(NamedTuple):
    """The tasks of a member, by role."""

    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    def __bool__(self) -> bool:
        return any(map(bool, (self.active, self.standby, self.warmup)))

    def by_role(self) -> tuple[tuple[Role, Tasks], ...]:
        return (
            (Role.ACTIVE, self.active),
            (Role.STANDBY, self.standby),
            (Role.WARMUP, self.warmup),
        )

    def common(self, other: Assignment) -> Assignment:
        return Assignment(
            self.active & other.active, self.standby & other.standby, self.warmup & other.warmup
        )

    def without(self, other: Assignment) -> Assignment:
        return Assignment(
            self.active - other.active, self.standby - other.standby, self.warmup - other.warmup
        )

    def union(self, other: Assignment) -> Assignment:
        return Assignment(
            self.active | other.active, self.standby | other.standby, self.warmup | other.warmup
        )

    def only(self, keep: Callable[[Role, TaskId], bool]) -> Assignment:
        return Assignment(
            *(
                frozenset(task for task in tasks if keep(role, task))
                for role, tasks in self.by_role()
            )
        )

    def is_within(self, limit: Assignment) -> bool:
        return (
            self.active <= limit.active
            and self.standby <= limit.standby
            and self.warmup <= limit.warmup
        )


NOTHING = Assignment()


def grouped(tasks: Iterable[TaskId]) -> list[tuple[str, list[int]]]:
    """The partitions of each subtopology, both in order, as messages and records have them."""
    found: dict[str, list[int]] = {}
    for task in sorted(tasks):
        found.setdefault(task.subtopology_id, []).append(task.partition)
    return list(found.items())
