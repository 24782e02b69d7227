"""Timers, against the obvious dictionary of deadlines."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from minikafka.coordinator.timers import Timers

KEYS = st.sampled_from("abcdefgh")
TIMES = st.integers(0, 30).map(float)


class TimersMachine(RuleBasedStateMachine):
    """Sets and cancels timers at random, and lets time pass."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: Timers[str] = Timers()
        self.model: dict[str, float] = {}

    @rule(key=KEYS, when=TIMES)
    def set(self, key: str, when: float) -> None:
        self.timers.set(key, when)
        self.model[key] = when

    @rule(key=KEYS)
    def cancel(self, key: str) -> None:
        self.timers.cancel(key)
        self.model.pop(key, None)

    @rule(now=TIMES)
    def expire(self, now: float) -> None:
        fired: list[str] = []
        while (key := self.timers.pop_due(now)) is not None:
            fired.append(key)
        assert sorted(fired) == sorted(key for key, when in self.model.items() if when <= now)
        assert [self.model[key] for key in fired] == sorted(self.model[key] for key in fired)
        for key in fired:
            del self.model[key]

    @rule()
    def clear(self) -> None:
        self.timers.clear()
        self.model.clear()

    @invariant()
    def same_as_the_model(self) -> None:
        assert self.timers.deadline() == min(self.model.values(), default=None)
        assert len(self.timers) == len(self.model)
        assert all(key in self.timers for key in self.model)


TestTimers = TimersMachine.TestCase


def test_timers_that_are_due_together_fire_in_the_order_they_were_set() -> None:
    timers: Timers[str] = Timers()
    for key in "cab":
        timers.set(key, 5.0)
    assert [timers.pop_due(5.0) for _ in range(4)] == ["c", "a", "b", None]


def test_moving_timers_closer_repeatedly_does_not_grow_the_heap() -> None:
    timers: Timers[int] = Timers()
    for when in range(100_000, 0, -1):
        timers.set(0, float(when))
    for key in range(1, 1_000):
        timers.set(key, 7.0)
        timers.cancel(key)
    assert len(timers._heap) < 200
    assert timers.deadline() == 1.0
