"""The assignors by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from minikafka_client.core.assignors.assignor import Assignor
from minikafka_client.core.assignors.simple import RangeAssignor, RoundRobinAssignor
from minikafka_client.core.assignors.sticky import CooperativeStickyAssignor, StickyAssignor

AssignorName = Literal["range", "roundrobin", "sticky", "cooperative-sticky"]

ASSIGNORS: Final[Mapping[str, Assignor]] = {
    assignor.name: assignor
    for assignor in (
        RangeAssignor(),
        RoundRobinAssignor(),
        StickyAssignor(),
        CooperativeStickyAssignor(),
    )
}


def choose_assignors(choices: Sequence[AssignorName | Assignor]) -> tuple[Assignor, ...]:
    """Resolve names (`ValueError` for unknown ones); the application's own are taken as is."""
    if not choices:
        raise ValueError("partition_assignment_strategy is empty; name at least one")
    chosen: list[Assignor] = []
    for choice in choices:
        if not isinstance(choice, str):
            chosen.append(choice)
        elif choice in ASSIGNORS:
            chosen.append(ASSIGNORS[choice])
        else:
            raise ValueError(f"assignor {choice!r} is unknown; it is one of {', '.join(ASSIGNORS)}")
    return tuple(chosen)


def is_cooperative(assignors: Sequence[Assignor]) -> bool:
    """Whether the group rebalances cooperatively: as Java, only if all assignors can."""
    return all(assignor.is_cooperative for assignor in assignors)
