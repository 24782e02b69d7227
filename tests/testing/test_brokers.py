"""Brokers that tests start: settings, restarts, failures to start, and what is left behind."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest
import trio

from minikafka import testing
from minikafka.protocol.messages import metadata
from minikafka.testing import LongTurnError
from minikafka.testing.process import ServerProcess, wait_until_ready
from minikafka.testing.settings import assignments
from minikafka.testing.wire import Wire
from minikafka_client.sync import AdminClient
from minikafka_client.types import ConfigResource, ConfigResourceType, NewTopic

PREFIX = ("sh", "-c", 'echo "$GREETING $1 $2" >&2; exec "$@"', "sh")


@pytest.fixture(scope="module")
def kafka() -> Generator[testing.Broker]:
    with testing.broker(
        {"log.retention.ms": 60_000},
        num_partitions=2,
        auto_create_topics_enable=False,
        arguments=["--node-id", "7"],
        environment={"GREETING": "hello"},
        prefix=PREFIX,
    ) as broker:
        yield broker


def server(directory: Path, program: str) -> ServerProcess:
    return ServerProcess("it", [sys.executable, "-c", program], directory / "log")


def is_up(bootstrap: str) -> bool:
    with Wire(bootstrap, timeout_s=1.0) as wire:
        try:
            wire.ask(metadata.Request(topics=[]), 12, metadata.Response)
        except TimeoutError:
            return False
    return True


# --- settings and hooks ---


def test_settings_come_by_either_name_and_over_the_defaults(kafka: testing.Broker) -> None:
    resource = ConfigResource(ConfigResourceType.BROKER, "7")
    with AdminClient(kafka.bootstrap) as admin:
        found = admin.describe_configs([resource])[resource]
    values = {name: found[name].value for name in found}
    assert values["log.retention.ms"] == "60000"
    assert values["num.partitions"] == "2"
    assert values["auto.create.topics.enable"] == "false"
    assert values["group.initial.rebalance.delay.ms"] == "0"


def test_values_are_written_as_kafka_writes_them() -> None:
    given: dict[str, testing.Setting] = {"a_b": True, "c": ["x", "y"], "d": 0.5, "e": "text"}
    words = assignments({"a.b": False, "f": 1}, given)
    assert words[::2] == ["--set"] * 5
    assert words[1::2] == ["a.b=true", "f=1", "c=x,y", "d=0.5", "e=text"]


def test_prefix_environment_and_arguments_reach_the_process(kafka: testing.Broker) -> None:
    assert kafka.log().startswith(f"hello {sys.executable} -m\n")
    assert "broker 7 registered" in kafka.log()
    assert psutil.Process(kafka.pid).ppid() == os.getpid()


# --- life ---


def test_address_and_data_are_the_same_after_a_kill(tmp_path: Path) -> None:
    with testing.broker(directory=tmp_path) as kafka:
        before = kafka.bootstrap, kafka.pid
        assert before[0] == f"{kafka.host}:{kafka.port}"
        with AdminClient(kafka.bootstrap) as admin:
            admin.create_topics([NewTopic("kept", 1)])
        kafka.kill()
        assert not kafka.is_running
        assert kafka.process.exit_code == -signal.SIGKILL
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((kafka.host, kafka.port))
        kafka.start()
        assert kafka.bootstrap == before[0]
        assert kafka.pid != before[1]
        with AdminClient(kafka.bootstrap) as admin:
            assert "kept" in admin.list_topics()
        assert kafka.stop() == 0
        assert not kafka.is_running
    assert (kafka.data_dir / "kept-0").is_dir()


def test_a_paused_broker_answers_nobody_and_can_still_be_stopped() -> None:
    with testing.broker() as kafka:
        assert is_up(kafka.bootstrap)
        kafka.pause()
        assert kafka.is_running
        assert kafka.is_paused
        assert not is_up(kafka.bootstrap)
        kafka.resume()
        assert is_up(kafka.bootstrap)
        kafka.pause()
        assert kafka.stop(signal.SIGINT) == 0
        assert not kafka.is_paused


def test_a_broker_that_runs_is_not_started_twice(kafka: testing.Broker) -> None:
    with pytest.raises(RuntimeError, match=f"already running, as process {kafka.pid}"):
        kafka.start()
    assert is_up(kafka.bootstrap)


def test_what_was_never_started_has_no_address() -> None:
    kafka = testing.broker()
    with pytest.raises(RuntimeError, match="was not started"):
        _ = kafka.bootstrap
    with pytest.raises(RuntimeError, match="was not started"):
        kafka.kill()


async def test_async_with_leaves_the_event_loop_running() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        async with testing.broker() as kafka:
            assert turns > 100
            assert await trio.to_thread.run_sync(is_up, kafka.bootstrap)
        assert not kafka.is_running
        nursery.cancel_scope.cancel()


async def test_cancelling_an_async_block_stops_the_broker() -> None:
    with trio.CancelScope() as scope:
        async with testing.broker() as kafka:
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert not kafka.is_running


# --- what is left ---


def test_a_temporary_directory_is_removed_unless_it_is_kept() -> None:
    with testing.broker() as kafka:
        assert kafka.data_dir.is_dir()
        assert kafka.log_path.parent == kafka.directory
    assert not kafka.directory.exists()
    assert kafka.log() == ""
    with testing.broker(keep=True) as kept:
        pass
    assert kept.data_dir.is_dir()
    subprocess.run(["rm", "-r", str(kept.directory)], check=True)


def test_an_error_in_the_block_carries_the_log() -> None:
    with pytest.raises(ZeroDivisionError) as caught, testing.broker():
        _ = 1 / 0
    (note,) = caught.value.__notes__
    assert note.startswith("the broker's log ends with:\n")
    assert "INFO minikafka" in note


def test_a_broker_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys, minikafka.testing\n"
        "kafka = minikafka.testing.broker(directory=sys.argv[1])\n"
        "kafka.start()\n"
        "print(kafka.pid, flush=True)\n"
        "sys.stdin.read()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        broker = os.pidfd_open(int(parent.stdout.readline()))
        parent.stdin.close()
    ended, _, _ = select.select([broker], [], [], 60)
    os.close(broker)
    assert parent.returncode == -signal.SIGKILL
    assert ended


def test_nothing_heavy_is_imported() -> None:
    program = (
        "import sys, trio, minikafka.testing as testing\n"
        "testing.broker(), testing.cluster(3)\n"
        "print(*(name for name in sys.modules if name.startswith(('minikafka', 'click', 'rich'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    imported = done.stdout.split()
    assert "minikafka.testing" in imported
    others = [name for name in imported if not f"{name}.".startswith("minikafka.testing.")]
    assert others == ["minikafka"]


# --- failures to start ---


def test_an_unknown_setting_is_named_with_its_nearest() -> None:
    with (
        pytest.raises(testing.BrokerStartError, match="ended with exit code 2") as caught,
        testing.broker(num_partitoins=3),
    ):
        pass
    assert "did you mean num.partitions" in str(caught.value)


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        kafka = testing.broker(directory=tmp_path, listen=address)
        with pytest.raises(testing.BrokerStartError, match=f"cannot listen on {address}"):
            kafka.start()
    assert not kafka.is_running
    kafka.start()
    assert kafka.bootstrap == address
    kafka.close()


def test_a_server_that_says_something_else_is_refused(tmp_path: Path) -> None:
    process = server(tmp_path, "print('hello', flush=True); input()")
    with pytest.raises(testing.BrokerStartError, match="printed 'hello', not `ready: HOST:PORT`"):
        wait_until_ready([process])
    process.kill()


def test_a_server_that_ends_before_it_is_ready_is_reported_with_its_log(tmp_path: Path) -> None:
    process = server(tmp_path, "raise SystemExit('no such luck')")
    with pytest.raises(testing.BrokerStartError, match=r"(?s)ended with exit code 1.*no such luck"):
        wait_until_ready([process])
    process.kill()


def test_a_server_that_is_too_slow_is_reported_although_another_is_ready(tmp_path: Path) -> None:
    ready = server(tmp_path, "print('ready: here', flush=True); input()")
    slow = server(tmp_path, "import sys; print('slow', file=sys.stderr, flush=True); input()")
    wait_until_ready([ready])
    with pytest.raises(testing.BrokerStartError, match="was not ready after 0 s"):
        wait_until_ready([slow], timeout_s=0.0)
    for process in (ready, slow):
        process.kill()
    assert ready.address == "here"
    assert ready.ready_seconds > 0


def test_a_server_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    stubborn = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready: here', flush=True)\n"
        "signal.pause()\n"
    )
    process = server(tmp_path, stubborn)
    wait_until_ready([process])
    process.ask_to_stop()
    assert process.wait(timeout_s=0.1) == -signal.SIGKILL
    assert process.exit_code == -signal.SIGKILL


def test_a_broker_that_keeps_its_clients_waiting_fails_the_test_where_that_is_watched() -> None:
    environment = {"MINIKAFKA_TURN_WARNING_MS": "0.001"}
    kafka = testing.broker(environment=environment)
    with pytest.raises(LongTurnError, match="ran for"), kafka:
        AdminClient(kafka.bootstrap).close()
    assert "longest of all" not in str(kafka.long_turns)


def test_a_broker_that_died_by_itself_leaves_no_open_pipe() -> None:
    kafka = testing.broker()
    kafka.start()
    pipe = kafka.process.fileno()
    os.kill(kafka.pid, signal.SIGKILL)
    kafka.close()
    with pytest.raises(ValueError, match="closed file"):
        kafka.process.fileno()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pipe)
