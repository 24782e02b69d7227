"""Stop signals before, during and after serving."""

import io
import logging
import signal

import pytest

from minikafka.broker.system.stop_signals import StoppedDuringStart, stop_signals


def raise_twice(number: signal.Signals) -> None:
    signal.raise_signal(number)
    signal.raise_signal(number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_start_abandons_it_quietly(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    reached: list[str] = []
    with stop_signals() as signals:
        reached.append("start")
        signal.raise_signal(number)
        reached.append("serve")
    assert reached == ["start"]
    assert signals.was_received
    assert signal.getsignal(number) == before


def test_a_second_signal_does_not_interrupt_what_the_first_began(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    cleaned_up: list[bool] = []
    with stop_signals():
        try:
            signal.raise_signal(signal.SIGTERM)
        except StoppedDuringStart:
            raise_twice(signal.SIGINT)
            cleaned_up.append(True)
            raise
    assert cleaned_up == [True]
    assert "stopped before it could serve" in caplog.text


class InterruptedStream(io.StringIO):
    """As a buffered stderr: a signal comes while it writes, and it refuses what comes meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.is_busy = False

    def write(self, text: str) -> int:
        if self.is_busy:
            raise RuntimeError("reentrant call")
        self.is_busy = True
        try:
            if "opening" in text:
                signal.raise_signal(signal.SIGINT)
            return super().write(text)
        finally:
            self.is_busy = False


def test_a_signal_that_interrupts_a_line_of_the_log_is_not_lost(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "minikafka")
    stream, served = InterruptedStream(), False
    handler, root = logging.StreamHandler(stream), logging.getLogger("minikafka")
    root.addHandler(handler)
    monkeypatch.setattr("sys.stderr", stream)
    try:
        with stop_signals() as signals:
            root.warning("opening logs")
            served = True
    finally:
        root.removeHandler(handler)
    assert signals.was_received
    assert not served


def test_a_signal_after_the_start_is_remembered() -> None:
    with stop_signals() as signals:
        signals.is_interruptible = False
        assert not signals.was_received
        raise_twice(signal.SIGTERM)
        assert signals.was_received


def test_other_errors_are_not_swallowed() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ValueError, match="disk"), stop_signals():
        raise ValueError("disk")
    assert signal.getsignal(signal.SIGTERM) == before
