"""What every command for a cluster does with errors and signals."""

import signal

import click
import pytest
import trio
from click.testing import CliRunner

from minikafka.cli.cluster_command import Stop, Target, cancelled_by_signals, cluster_command
from minikafka.cli.failure import CommandFailed, Interrupted, Terminated, cannot_write
from minikafka.cli.lazy_group import LazyGroup
from minikafka_client import KafkaError


def run_and_raise(error: BaseException) -> tuple[int, str]:
    """Run a program whose only command raises; returns exit code and stderr."""

    @click.command("try")
    @cluster_command
    async def attempt(target: Target) -> None:
        assert target.bootstrap == "localhost:9092"
        await trio.lowlevel.checkpoint()
        raise error

    program = LazyGroup({}, name="program")
    program.add_command(attempt)
    result = CliRunner().invoke(program, ["try"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stderr


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KafkaError("the broker\nsaid no"), (1, "program try: the broker; said no\n")),
        (ExceptionGroup("", [KafkaError("no")]), (1, "program try: no\n")),
        (
            ExceptionGroup("", [ExceptionGroup("", [KafkaError("first")]), KafkaError("second")]),
            (1, "program try: first\n"),
        ),
        (
            BaseExceptionGroup("", [KafkaError("x"), KeyboardInterrupt()]),
            (130, "\n"),
        ),
        (ExceptionGroup("", [KafkaError("x"), BrokenPipeError(32, "Broken pipe")]), (0, "")),
        (OSError(28, "No space left on device"), (1, "No space left on device")),
        (MemoryError(), (1, "program: out of memory\n")),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_every_error_has_one_line_and_an_exit_code(
    error: BaseException, told: tuple[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minikafka.cli.cluster_command._drop_stdout", lambda: None)
    exit_code, stderr = run_and_raise(error)
    assert exit_code == told[0]
    assert told[1] in stderr
    assert len(stderr.splitlines()) <= 1


def test_a_command_that_fails_names_itself_if_it_knows_how() -> None:
    @click.command("try")
    @cluster_command
    async def attempt(target: Target) -> None:
        await trio.lowlevel.checkpoint()
        raise ExceptionGroup("", [KafkaError("x"), CommandFailed(f"not at {target.bootstrap}")])

    program = LazyGroup({}, name="program")
    program.add_command(attempt)
    result = CliRunner().invoke(program, ["try", "--bootstrap", "h:1"])
    assert (result.exit_code, result.stderr) == (1, "program try: not at h:1\n")


def test_a_bug_is_not_dressed_up() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        run_and_raise(ExceptionGroup("", [ZeroDivisionError(), KafkaError("x")]))
    assert caught.group_contains(ZeroDivisionError)


def test_other_signals_handlers_come_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    stop = Stop()

    async def interrupted() -> None:
        with cancelled_by_signals(stop):
            signal.raise_signal(signal.SIGTERM)
            await trio.sleep_forever()

    trio.run(interrupted)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert stop.signal_number == signal.SIGTERM


@pytest.mark.parametrize(
    ("number", "kind", "exit_code"),
    [(signal.SIGINT, Interrupted, 130), (signal.SIGTERM, Terminated, 143)],
)
def test_a_signal_becomes_its_exit_code(
    number: int, kind: type[CommandFailed], exit_code: int
) -> None:
    error = Stop(number).error("half done")
    assert type(error) is kind
    assert error.exit_code == exit_code
    assert error.message == "half done"


def test_a_stdout_that_takes_no_more_is_named() -> None:
    text = str(cannot_write(OSError(28, "No space left on device")))
    assert text == "cannot write to stdout: No space left on device; make room for it"
    assert "strange" in str(cannot_write(OSError("strange")))
