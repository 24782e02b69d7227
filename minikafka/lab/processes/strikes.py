"""The faults of the matrix, as what is done to a cluster around some records of a producer."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from typing import Final, Protocol

from ..matrix import Acks, Cell, Fault
from .stage import Stage
from .target import Action


class Sender(Protocol):
    """The producer, as far as a strike waits for it."""

    def settle(self) -> None:
        """Wait until it knows what became of the records that it has sent."""
        ...

    def is_refused(self) -> bool:
        """Whether one of them was refused for want of replicas, at least for now."""
        ...

    def is_acknowledged(self) -> bool:
        """Whether one of them was acknowledged that was not settled before."""
        ...


_DEATH_S: Final = 10.0
_FETCH_WAITS_S: Final = 0.6
"""A follower's fetch may wait at the leader for replica.fetch.wait.max.ms (500 by default)."""
_ALONE_S: Final = 0.8
"""How long the leader is alone with a record that needs others: does it wait for them?"""

Strike = Callable[[Stage, Cell, Sender], Generator[None]]


def _lose_ack(stage: Stage, _cell: Cell, _sender: Sender) -> Generator[None]:
    stage.do(Action.LOSE_ACK, stage.leader())
    yield


def _lose_request(stage: Stage, cell: Cell, _sender: Sender) -> Generator[None]:
    """With several in flight, the one alone that is refused: the next ones arrive."""
    is_one = cell.producer.in_flight_max > 1 and Action.REFUSE in stage.target.can
    stage.do(Action.REFUSE if is_one else Action.LOSE_REQUEST, stage.leader())
    yield


def _kill(action: Action) -> Strike:
    def strike(stage: Stage, cell: Cell, sender: Sender) -> Generator[None]:
        leader = stage.leader()
        if action is Action.KILL_AFTER_ACK and (
            cell.producer.acks is Acks.ALL or cell.topic.replicas == 1
        ):
            yield from _have_it_acknowledged(stage, cell, sender, leader)
        else:
            stage.do(action, leader)
            yield
            # It lives on if the batch went to another leader: then it dies here.
            stage.wait_a_while(lambda: not stage.answers(leader), _DEATH_S)
            stage.do(Action.KILL, leader)
        if cell.topic.replicas > 1:
            stage.leader(other_than=leader)
            stage.look()
        stage.do(Action.START, leader)

    return strike


def _have_it_acknowledged(stage: Stage, cell: Cell, sender: Sender, leader: int) -> Generator[None]:
    """Kill a leader that has acknowledged with acks=all, if possible before others have the record.

    The followers stand still for a moment. A leader that acknowledges meanwhile dies at once, with
    the only replica; one that waits for them, as it has to, dies when they have the record.
    """
    others: list[int] = []
    if cell.topic.replicas > 1 and {Action.PAUSE, Action.RESUME} <= stage.target.can:
        others = [node for node in stage.addresses if node != leader]
    for node in others:
        stage.do(Action.PAUSE, node)
    if others:
        time.sleep(_FETCH_WAITS_S)
    yield
    is_early = bool(others) and stage.wait_a_while(sender.is_acknowledged, _ALONE_S)
    if is_early:
        stage.do(Action.KILL, leader)
    for node in others:
        stage.do(Action.RESUME, node)
    if not is_early:
        sender.settle()
        stage.do(Action.KILL, leader)


def _isolate_leader(stage: Stage, _cell: Cell, _sender: Sender) -> Generator[None]:
    leader = stage.leader()
    stage.do(Action.ISOLATE, leader)
    yield
    stage.leader(other_than=leader)
    stage.look()
    stage.do(Action.HEAL, leader)


def _isolate_follower(stage: Stage, _cell: Cell, _sender: Sender) -> Generator[None]:
    leader = stage.leader()
    follower = stage.dice.choice([one for one in stage.in_sync() if one != leader])
    stage.do(Action.ISOLATE, follower)
    yield
    stage.wait_until(lambda: follower not in stage.in_sync(), "the follower stays in the ISR")
    stage.look()
    stage.do(Action.HEAL, follower)


def _pause_leader(stage: Stage, cell: Cell, _sender: Sender) -> Generator[None]:
    leader = stage.leader()
    stage.do(Action.PAUSE, leader)
    yield
    if cell.topic.replicas > 1:
        stage.leader(other_than=leader)
        stage.look()
    stage.do(Action.RESUME, leader)


def _lose_the_last_in_sync(stage: Stage, cell: Cell, sender: Sender) -> Generator[None]:
    leader = stage.leader()
    followers = [one for one in stage.in_sync() if one != leader]
    for one in followers:
        stage.do(Action.FALL_BEHIND, one)
    yield
    stage.wait_until(lambda: [*stage.in_sync()] == [leader], "followers stay in the ISR")
    stage.look()
    yield  # more records, which only the leader can take
    if cell.topic.min_insync > 1 and cell.producer.acks is Acks.ALL:
        stage.wait_until(sender.is_refused, "no write was refused")
    stage.do(Action.KILL, leader)
    stage.do(Action.WIPE, leader)
    for one in followers:
        stage.do(Action.HEAL, one)
    stage.wait_until(lambda: _is_led_again(stage, leader), "nobody leads")
    stage.look()
    stage.do(Action.START, leader)


def _is_led_again(stage: Stage, lost: int) -> bool:
    """Whether there is a leader; an operator accepts one that may have less."""
    found = stage.describe()
    if found is not None and found.leader_id not in {-1, lost}:
        return True
    stage.elect_unclean()
    return False


def _lose_power_of_one(stage: Stage, cell: Cell, sender: Sender) -> Generator[None]:
    """Of the leader, as soon as it has acknowledged."""
    leader = stage.leader()
    yield
    sender.settle()
    stage.do(Action.LOSE_POWER, leader)
    if cell.topic.replicas > 1:
        stage.leader(other_than=leader)
        stage.look()
    stage.do(Action.START, leader)


def _lose_power_of_all(stage: Stage, _cell: Cell, sender: Sender) -> Generator[None]:
    yield
    sender.settle()
    for node in stage.addresses:  # at once, as far as that is possible
        stage.do(Action.KILL, node)
    for node in stage.addresses:
        stage.do(Action.LOSE_POWER, node)
    stage.restore()
    stage.wait_until(lambda: _is_led_again(stage, -1), "nobody leads")
    stage.look()


def _jump(stage: Stage, _cell: Cell, _sender: Sender) -> Generator[None]:
    stage.do(Action.JUMP_CLOCK, stage.leader())
    yield


def _roll(stage: Stage, _cell: Cell, _sender: Sender) -> Generator[None]:
    for node in sorted(stage.addresses):
        stage.do(Action.STOP, node)
        yield
        stage.do(Action.START, node)
        stage.wait_until_whole()
        stage.look()


def _kill_coordinator(stage: Stage, cell: Cell, _sender: Sender) -> Generator[None]:
    key, is_group = stage.topic, cell.consumer is not None
    node = stage.coordinator(key, is_group=is_group)
    stage.do(Action.KILL, node)
    yield
    stage.do(Action.START, node)


STRIKES: Final[Mapping[Fault, Strike]] = {
    Fault.REQUEST_LOST: _lose_request,
    Fault.ACK_LOST: _lose_ack,
    Fault.LEADER_KILLED_BEFORE_APPEND: _kill(Action.KILL_BEFORE_APPEND),
    Fault.LEADER_KILLED_AFTER_APPEND: _kill(Action.KILL_AFTER_APPEND),
    Fault.LEADER_KILLED_AFTER_ACK: _kill(Action.KILL_AFTER_ACK),
    Fault.LEADER_ISOLATED: _isolate_leader,
    Fault.FOLLOWER_ISOLATED: _isolate_follower,
    Fault.LEADER_PAUSED: _pause_leader,
    Fault.ISR_SHRUNK: _lose_the_last_in_sync,
    Fault.POWER_LOSS_ONE: _lose_power_of_one,
    Fault.POWER_LOSS_ALL: _lose_power_of_all,
    Fault.CLOCK_JUMP: _jump,
    Fault.ROLLING_RESTART: _roll,
    Fault.COORDINATOR_KILLED: _kill_coordinator,
}
"""A strike yields where the producer is to send the next records."""

NEEDS: Final[Mapping[Fault, frozenset[Action]]] = {
    Fault.REQUEST_LOST: frozenset({Action.LOSE_REQUEST}),
    Fault.ACK_LOST: frozenset({Action.LOSE_ACK}),
    Fault.LEADER_KILLED_BEFORE_APPEND: frozenset(
        {Action.KILL_BEFORE_APPEND, Action.KILL, Action.START}
    ),
    Fault.LEADER_KILLED_AFTER_APPEND: frozenset(
        {Action.KILL_AFTER_APPEND, Action.KILL, Action.START}
    ),
    Fault.LEADER_KILLED_AFTER_ACK: frozenset({Action.KILL_AFTER_ACK, Action.KILL, Action.START}),
    Fault.LEADER_ISOLATED: frozenset({Action.ISOLATE, Action.HEAL}),
    Fault.FOLLOWER_ISOLATED: frozenset({Action.ISOLATE, Action.HEAL}),
    Fault.LEADER_PAUSED: frozenset({Action.PAUSE, Action.RESUME}),
    Fault.ISR_SHRUNK: frozenset(
        {Action.FALL_BEHIND, Action.HEAL, Action.KILL, Action.WIPE, Action.START}
    ),
    Fault.POWER_LOSS_ONE: frozenset({Action.LOSE_POWER, Action.START}),
    Fault.POWER_LOSS_ALL: frozenset({Action.KILL, Action.LOSE_POWER}),
    Fault.CLOCK_JUMP: frozenset({Action.JUMP_CLOCK}),
    Fault.ROLLING_RESTART: frozenset({Action.STOP, Action.START}),
    Fault.COORDINATOR_KILLED: frozenset({Action.KILL, Action.START}),
}
"""What a target must be able to do; the other faults happen to clients."""
