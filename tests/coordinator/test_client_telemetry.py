"""When a client may ask for its subscription, and push: the table at the top of the machine."""

import pytest

from minikafka.coordinator import client_telemetry
from minikafka.coordinator.client_telemetry import ClientTelemetry, Push
from minikafka.metadata.client_metrics import ClientDescription
from minikafka.protocol.errors import ErrorCode

ID = b"i" * 16
CLIENT = ClientDescription("i", "c", "java", "4.4", "10.0.0.1", "1")
EVERY_SECOND = [{"metrics": "*", "interval.ms": "1000"}]
OK, EARLY = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED


class Talk:
    """One client and the broker."""

    def __init__(self) -> None:
        self.machine = ClientTelemetry(size_bytes_max=100)
        self.subscriptions = EVERY_SECOND
        self.subscription_id = 0

    def ask(self, now: float) -> ErrorCode:
        offer = self.machine.ask(ID, CLIENT, self.subscriptions, now)
        self.subscription_id = offer.subscription_id
        return offer.error_code

    def push(
        self, now: float, *, compression: int = 0, size: int = 1, terminating: bool = False
    ) -> ErrorCode:
        push = Push(self.subscription_id, compression, size, terminating)
        return self.machine.push(ID, CLIENT, self.subscriptions, push, now)


def test_a_client_pushes_once_in_an_interval() -> None:
    talk = Talk()
    assert talk.ask(0) is OK
    assert talk.push(0.1) is OK  # the first push may come at any time: clients spread them
    assert talk.push(0.2) is EARLY
    assert talk.push(1.1) is OK
    assert talk.ask(1.2) is EARLY
    assert talk.ask(2.1) is OK


def test_a_client_whose_subscription_changed_asks_again_at_once() -> None:
    talk = Talk()
    assert talk.ask(0) is OK
    before = talk.subscription_id
    talk.subscriptions = [{"metrics": "a", "interval.ms": "1000"}]
    assert talk.push(0.1) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert talk.ask(0.2) is OK
    assert talk.subscription_id != before
    assert talk.push(0.3) is OK


@pytest.mark.parametrize(
    ("compression", "size", "code"),
    [
        (4, 100, OK),
        (5, 1, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (0, 101, ErrorCode.TELEMETRY_TOO_LARGE),
    ],
)
def test_what_cannot_be_taken_is_refused(compression: int, size: int, code: ErrorCode) -> None:
    talk = Talk()
    talk.ask(0)
    assert talk.push(0.1, compression=compression, size=size) is code
    may_ask_at_once = code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert talk.ask(0.2) is (OK if may_ask_at_once else EARLY)


def test_the_last_push_may_come_early_and_nothing_after_it() -> None:
    talk = Talk()
    talk.ask(0)
    assert talk.push(0.1) is OK
    assert talk.push(0.2, terminating=True) is OK
    assert talk.push(5) is ErrorCode.INVALID_REQUEST


def test_the_clients_heard_of_longest_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_telemetry, "CLIENTS_MAX", 2)
    machine = ClientTelemetry(100)
    ids = [bytes([n]) * 16 for n in range(3)]
    assert [machine.ask(one, CLIENT, EVERY_SECOND, 0).error_code for one in ids] == [OK] * 3
    assert machine.ask(ids[2], CLIENT, EVERY_SECOND, 0.1).error_code is EARLY
    assert machine.ask(ids[0], CLIENT, EVERY_SECOND, 0.1).error_code is OK
