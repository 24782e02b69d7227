"""Coordinators of consumer groups without one of their guards; the simulation notices each."""

from __future__ import annotations

from typing import Any

from minikafka.coordinator.group.consumer import heartbeats, member
from minikafka.coordinator.group.consumer.changes import Changes
from minikafka.coordinator.group.consumer.consumer_group import ConsumerGroup
from minikafka.coordinator.group.consumer.draft import Draft
from minikafka.coordinator.group.consumer.requests import ConsumerRequests
from minikafka.coordinator.group.context import ShardContext
from minikafka.protocol.errors import ErrorCode
from tests.simulation.kit.mutants import Mutant, always

SEEDS = 200

_append = ShardContext.append


def answer_before_the_commit(
    self: ShardContext, entries: Any, done: Any, producer: tuple[int, int] = (-1, -1)
) -> None:
    _append(self, entries, lambda _: None, producer)
    done(ErrorCode.NONE)


def never_disown(self: ConsumerGroup, _: Any) -> None:
    del self


MUTANTS = (
    Mutant(
        "a partition is given to its next member at once",
        SEEDS,
        ((ConsumerGroup, "is_free", always(True)),),
    ),
    Mutant(
        "a partition is free before its member says that it has given it up",
        SEEDS,
        ((member, "_still_owns", always(False)),),
    ),
    Mutant(
        "heartbeats are answered before they are committed",
        SEEDS,
        ((ShardContext, "append", answer_before_the_commit),),
    ),
    Mutant(
        "partitions that were given up are never free",
        SEEDS,
        ((ConsumerGroup, "_disown", never_disown),),
    ),
    Mutant(
        "silent members are not removed",
        SEEDS,
        ((Changes, "on_timer", always(None)),),
    ),
    Mutant(
        "a new coordinator starts no timers",
        SEEDS,
        ((ConsumerRequests, "loaded", always(None)),),
    ),
    Mutant(
        "nothing raises the group epoch",
        SEEDS,
        ((Draft, "raise_epoch", always(None)),),
    ),
    Mutant(
        "topics that change are not noticed",
        SEEDS,
        ((ConsumerRequests, "topics_changed", always(None)),),
    ),
    Mutant(
        "two members may have one instance id",
        SEEDS,
        ((heartbeats, "is_away", always(True)),),
    ),
    Mutant(
        "commits are accepted in any epoch",
        SEEDS,
        ((ConsumerGroup, "_check_epoch", always(ErrorCode.NONE)),),
    ),
    Mutant(
        "expressions are not matched again by the next coordinator",
        SEEDS,
        ((ShardContext, "match", always(None)),),
    ),
)
