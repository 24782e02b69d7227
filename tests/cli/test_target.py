"""What the commands that talk to a cluster share: errors, signals, the client's warnings."""

import logging
import signal
from collections.abc import Callable, Iterator

import click
import pytest
import trio
from click.testing import CliRunner, Result

from minikafka.cli.failure import CommandFailed, Interrupted, Terminated
from minikafka.cli.lazy_group import LazyGroup
from minikafka.cli.output import cannot_write
from minikafka.cli.signals import Stop, cancelled_by_signals
from minikafka.cli.target import (
    Target,
    client_command,
    hide_warnings,
    show_repeated_warnings,
)
from minikafka_client import KafkaError


def run_failing(error_of: Callable[[Target], BaseException], words: list[str]) -> Result:
    """Run a program whose only command fails with an error made from its target."""

    @click.command("try")
    @client_command
    async def attempt(target: Target) -> None:
        await trio.lowlevel.checkpoint()
        raise error_of(target)

    program = LazyGroup({}, name="program")
    program.add_command(attempt)
    return CliRunner().invoke(program, ["try", *words])


def run_and_raise(error: BaseException) -> tuple[int, str]:
    """Run a program whose only command raises; return exit code and stderr."""
    result = run_failing(lambda _: error, [])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stderr


@pytest.mark.parametrize(
    ("error", "expected"),
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
    error: BaseException, expected: tuple[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minikafka.cli.output._discard_stdout", lambda: None)
    exit_code, stderr = run_and_raise(error)
    assert exit_code == expected[0]
    assert expected[1] in stderr
    assert len(stderr.splitlines()) <= 1


@pytest.mark.parametrize(
    ("words", "bootstrap"), [([], "localhost:9092"), (["--bootstrap", "h:1"], "h:1")]
)
def test_the_commands_own_error_names_it_and_its_target(words: list[str], bootstrap: str) -> None:
    def error_of(target: Target) -> BaseException:
        failure = CommandFailed(f"not at {target.bootstrap}")
        return ExceptionGroup("", [KafkaError("x"), failure])

    result = run_failing(error_of, words)
    assert (result.exit_code, result.stderr) == (1, f"program try: not at {bootstrap}\n")


def test_a_bug_is_not_disguised_as_a_failure() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        run_and_raise(ExceptionGroup("", [ZeroDivisionError(), KafkaError("x")]))
    assert caught.group_contains(ZeroDivisionError)


def test_signal_handlers_are_restored() -> None:
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


def test_a_stdout_that_refuses_writes_is_named() -> None:
    text = str(cannot_write(OSError(28, "No space left on device")))
    assert text == "cannot write to stdout: No space left on device"
    assert "strange" in str(cannot_write(OSError("strange")))


# --- the client's warnings ---------------------------------------------------------------------

NAME = "tests.noisy_library"
log = logging.getLogger(NAME)


@pytest.fixture
def noisy() -> Iterator[None]:
    """A library with hidden warnings, whose logger is restored afterwards."""
    hide_warnings(NAME)
    yield
    log.handlers.clear()
    log.propagate = True


@pytest.mark.usefixtures("noisy")
def test_hidden_warnings_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        log.warning("the same")
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("noisy")
def test_repeated_warnings_are_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    show_repeated_warnings(NAME)
    for number in range(4):
        log.warning("try %d\nfailed", number)
        log.info("noise")
    log.warning("once")
    assert capsys.readouterr().err == "try 1; failed\n"
