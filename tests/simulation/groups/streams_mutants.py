"""Coordinators of streams groups without one of their guards; the simulation notices each."""

from __future__ import annotations

from typing import Any

from minikafka.coordinator.group.context import ShardContext
from minikafka.coordinator.group.streams import heartbeats, member, streams_group
from minikafka.coordinator.group.streams.changes import Changes
from minikafka.coordinator.group.streams.draft import Draft
from minikafka.coordinator.group.streams.heartbeats import Heartbeats
from minikafka.coordinator.group.streams.requests import StreamsRequests
from minikafka.coordinator.group.streams.streams_group import StreamsGroup
from minikafka.coordinator.group.streams.tasks import Role, TaskId
from minikafka.protocol.errors import ErrorCode
from tests.simulation.groups.mutants import SEEDS, answer_before_the_commit
from tests.simulation.kit.mutants import Mutant, always


def free_in_any_process(
    self: StreamsGroup, candidate: member.StreamsMember, role: Role, task: TaskId
) -> bool:
    return role is not Role.ACTIVE or not self.holders(role, task) - {candidate.member_id}


def show_only_changes(
    self: Heartbeats, request: Any, draft: Any, before: Any, now: Any, owned: Any, answer: Any
) -> None:
    del owned
    _show_news(self, request, draft, before, now, None, answer)


_show_news = Heartbeats._show_news

STREAMS_MUTANTS = (
    Mutant(
        "a task is given to its next member at once",
        SEEDS,
        ((StreamsGroup, "is_free_for", always(True)),),
    ),
    Mutant(
        "a task is free for a thread while another one of the process has it",
        SEEDS,
        ((StreamsGroup, "is_free_for", free_in_any_process),),
    ),
    Mutant(
        "a task is free before its member says that it has given it up",
        SEEDS,
        ((member, "_still_owns", always(False)),),
    ),
    Mutant(
        "streams heartbeats are answered before they are committed",
        SEEDS,
        ((ShardContext, "append", answer_before_the_commit),),
        first=13,
    ),
    Mutant(
        "tasks of a lost answer are not named once more",
        SEEDS,
        ((Heartbeats, "_show_news", show_only_changes),),
        first=45,
    ),
    Mutant(
        "silent members of a streams group are not removed",
        SEEDS,
        ((Changes, "on_timer", always(None)),),
    ),
    Mutant(
        "a new coordinator starts no timers of streams members",
        SEEDS,
        ((StreamsRequests, "loaded", always(None)),),
    ),
    Mutant(
        "nothing raises the epoch of a streams group",
        SEEDS,
        ((Draft, "raise_epoch", always(None)),),
    ),
    Mutant(
        "topics of a topology that change are not noticed",
        SEEDS,
        ((streams_group, "hash_of_topics", always(0)),),
    ),
    Mutant(
        "internal topics that are missing are not created",
        SEEDS,
        ((ShardContext, "create_internal_topics", always(None)),),
    ),
    Mutant(
        "two streams members may have one instance id",
        SEEDS,
        ((heartbeats, "is_away", always(True)),),
    ),
    Mutant(
        "commits of streams members are accepted in any epoch",
        SEEDS,
        ((StreamsGroup, "_check_epoch", always(ErrorCode.NONE)),),
    ),
)
