"""Sessions of brokers: which are alive, to be fenced, or caught up."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from minikafka.metadata.heartbeats import LATENESS_MAX_S, RETRY_S, BrokerHeartbeats

SESSION_S = 9.0


def test_a_broker_that_is_silent_for_a_session_is_overdue() -> None:
    heartbeats = BrokerHeartbeats(SESSION_S)
    heartbeats.contact(1, 0, 0, now=0.0)
    heartbeats.contact(2, 0, 0, now=5.0)
    assert heartbeats.deadline() == 9.0
    assert heartbeats.expire(8.9) == []
    assert heartbeats.is_alive(1, 8.9)
    assert heartbeats.expire(9.0) == [1]
    assert not heartbeats.is_alive(1, 9.0)
    assert heartbeats.is_alive(2, 9.0)


def test_no_broker_is_overdue_when_there_is_none() -> None:
    heartbeats = BrokerHeartbeats(SESSION_S)
    assert heartbeats.deadline() is None
    assert heartbeats.expire(100.0) == []
    heartbeats.lost(1, 100.0)
    assert heartbeats.deadline() is None
    assert not heartbeats.is_alive(1, 100.0)


def test_a_new_controller_gives_every_broker_a_session() -> None:
    heartbeats = BrokerHeartbeats(SESSION_S)
    heartbeats.contact(3, 0, 0, now=0.0)
    heartbeats.lost(3, 1.0)
    heartbeats.begin([1, 2], now=100.0)
    assert heartbeats.is_alive(1, 100.0)
    assert heartbeats.deadline() == 109.0
    assert heartbeats.expire(109.0) == [1, 2]


def test_a_broker_that_is_lost_is_overdue_immediately() -> None:
    heartbeats = BrokerHeartbeats(SESSION_S)
    heartbeats.contact(1, 0, 0, now=0.0)
    heartbeats.lost(1, 2.0)
    assert not heartbeats.is_alive(1, 2.0)
    assert heartbeats.deadline() == 2.0
    assert heartbeats.expire(2.0) == [1]
    heartbeats.lost(1, 2.5)
    assert heartbeats.deadline() == 2.0 + RETRY_S


def test_an_overdue_broker_is_returned_until_it_is_fenced() -> None:
    heartbeats = BrokerHeartbeats(SESSION_S)
    heartbeats.contact(1, 0, 0, now=0.0)
    assert heartbeats.expire(9.0) == [1]
    assert heartbeats.expire(9.0 + RETRY_S) == [1]
    heartbeats.forget(1)
    assert heartbeats.deadline() is None
    heartbeats.forget(1)


def test_a_broker_that_sends_a_heartbeat_again_is_not_overdue() -> None:
    heartbeats = BrokerHeartbeats(SESSION_S)
    heartbeats.contact(1, 0, 0, now=0.0)
    heartbeats.lost(1, 1.0)
    heartbeats.contact(1, 0, 0, now=2.0)
    assert heartbeats.is_alive(1, 2.0)
    assert heartbeats.expire(2.0) == []


def test_a_broker_catches_up_with_what_was_committed_at_its_first_contact() -> None:
    heartbeats = BrokerHeartbeats(SESSION_S)
    assert not heartbeats.contact(1, applied_index=3, committed_index=7, now=0.0)
    assert not heartbeats.contact(1, applied_index=6, committed_index=9, now=1.0)
    assert heartbeats.contact(1, applied_index=7, committed_index=20, now=2.0)


def test_a_broker_that_was_away_has_to_catch_up_again() -> None:
    for how in ("lost", "silent", "forgotten"):
        heartbeats = BrokerHeartbeats(SESSION_S)
        assert heartbeats.contact(1, 7, 7, now=0.0)
        match how:
            case "lost":
                heartbeats.lost(1, 1.0)
            case "silent":
                assert heartbeats.expire(9.0) == [1]
            case _:
                heartbeats.forget(1)
        assert not heartbeats.contact(1, 8, 9, now=10.0)
        assert heartbeats.contact(1, 9, 12, now=11.0)


def test_a_controller_that_was_suspended_gives_brokers_time() -> None:
    heartbeats = BrokerHeartbeats(SESSION_S)
    heartbeats.begin([1, 2], now=0.0)
    late = 9.0 + LATENESS_MAX_S + 0.5
    assert heartbeats.expire(late) == []
    assert heartbeats.is_alive(1, late)
    heartbeats.contact(1, 0, 0, now=late)
    assert heartbeats.deadline() == late + RETRY_S
    assert heartbeats.expire(late + RETRY_S) == [2]
    assert heartbeats.is_alive(1, late + RETRY_S)


def test_a_controller_that_is_a_little_late_does_its_work() -> None:
    heartbeats = BrokerHeartbeats(SESSION_S)
    heartbeats.begin([1, 2], now=0.0)
    assert heartbeats.expire(9.0 + LATENESS_MAX_S) == [1, 2]


class HeartbeatsAgainstModel(RuleBasedStateMachine):
    """Called when it is due: exactly the silent and the lost are named."""

    def __init__(self) -> None:
        super().__init__()
        self.heartbeats = BrokerHeartbeats(SESSION_S)
        self.now = 0.0
        self.heard: dict[int, float] = {}
        self.gone: set[int] = set()

    @rule(broker_id=st.integers(1, 4))
    def contact(self, broker_id: int) -> None:
        self.heartbeats.contact(broker_id, 0, 0, self.now)
        self.heard[broker_id] = self.now
        self.gone.discard(broker_id)

    @rule(broker_id=st.integers(1, 4))
    def lost(self, broker_id: int) -> None:
        self.heartbeats.lost(broker_id, self.now)
        if broker_id in self.heard:
            self.gone.add(broker_id)

    @rule(broker_id=st.integers(1, 4))
    def forget(self, broker_id: int) -> None:
        self.heartbeats.forget(broker_id)
        self.heard.pop(broker_id, None)
        self.gone.discard(broker_id)

    @rule(seconds=st.floats(0, 20))
    def time_passes(self, seconds: float) -> None:
        until = self.now + seconds
        while (deadline := self.heartbeats.deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            named = set(self.heartbeats.expire(self.now))
            silent = {one for one, at in self.heard.items() if at + SESSION_S <= self.now}
            assert named <= self.gone | silent
            self.gone |= silent
            for broker_id in named:
                self.forget(broker_id)
        self.now = until
        assert not self.gone, "every lost broker was returned"

    @invariant()
    def the_living_are_known(self) -> None:
        for broker_id in range(1, 5):
            is_alive = broker_id in self.heard and broker_id not in self.gone
            assert self.heartbeats.is_alive(broker_id, self.now) == is_alive


TestHeartbeatsAgainstModel = HeartbeatsAgainstModel.TestCase
