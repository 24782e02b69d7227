"""`minikafka lab verify` as a user types it."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from itertools import repeat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from minikafka.cli.main import main
from minikafka.lab.processes import verify
from minikafka.lab.processes.minikafka_target import MinikafkaTarget
from minikafka.lab.processes.target import CannotError
from minikafka.lab.processes.verify_target import VerifyTarget
from minikafka.lab.scenario import Scenario
from minikafka.protocol.messages import api_versions
from minikafka.testing.clusters import Cluster
from minikafka.testing.wire import Wire

BROKEN_BROKER = Path(__file__).parent / "processes" / "broken_broker.py"
ACK_LOST = Scenario.parse("p.acksall-idem-fly5_t.r3-m2_c.none_f.ack-lost@0")
PAUSED = Scenario.parse("p.acksall-idem-fly5_t.r3-m2_c.none_f.leader-paused@0")

Draw = Callable[[Iterator[Scenario]], None]


@pytest.fixture(scope="module")
def bootstrap() -> Generator[str]:
    """Three sound brokers."""
    target = MinikafkaTarget()
    yield target.bootstrap
    target.close()


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Draw:
    """Choose the scenarios of the command."""

    def choose(scenarios: Iterator[Scenario]) -> None:
        def chosen(*_: object) -> Iterator[Scenario]:
            return scenarios

        monkeypatch.setattr(verify, "scenarios_for", chosen)

    return choose


def run(bootstrap: str, *words: str) -> Result:
    return CliRunner().invoke(main, ["lab", "verify", "--bootstrap", bootstrap, *words])


def test_a_sound_cluster(bootstrap: str, draw: Draw, tmp_path: Path) -> None:
    draw(repeat(ACK_LOST))
    json_path, html_path = tmp_path / "verify.json", tmp_path / "verify.html"
    result = run(bootstrap, "--runs", "1", "--json", str(json_path), "--html", str(html_path))
    assert result.exit_code == 0, result.output
    assert "1 runs of 1 cells" in result.stdout
    assert "no promise was broken" in result.stdout
    document = json.loads(json_path.read_text())
    assert (document["breaches"], document["failures"]) == ([], [])
    assert document["is_complete"] is True
    assert html_path.read_text().startswith("<!")


def test_a_broken_cluster_is_named(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    draw(repeat(ACK_LOST))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    target = MinikafkaTarget(prefix=[sys.executable, str(BROKEN_BROKER), "repeats-what-it-knows"])
    try:
        result = run(target.bootstrap, "--runs", "1")
    finally:
        target.close()
    assert result.exit_code == 1, result.output
    assert "BROKEN idempotent-exactly-once-in-the-log: " in result.stdout
    assert str(ACK_LOST) in result.stdout


def test_ctrl_c_in_the_middle_keeps_what_was_found(
    bootstrap: str, draw: Draw, tmp_path: Path
) -> None:
    def interrupted() -> Iterator[Scenario]:
        yield ACK_LOST
        signal.raise_signal(signal.SIGINT)

    draw(interrupted())
    json_path = tmp_path / "verify.json"
    result = run(bootstrap, "--json", str(json_path))
    assert result.exit_code == 130, result.output
    assert "1 runs of 1 cells" in result.stdout
    assert "no promise was broken" not in result.stdout
    document = json.loads(json_path.read_text())
    assert document["is_complete"] is False


def test_a_hook_that_fails_is_named(bootstrap: str, draw: Draw) -> None:
    draw(repeat(PAUSED))
    result = run(bootstrap, "--on", "pause=echo not mine >&2; exit 9", "--on", "resume=true")
    assert result.exit_code == 2
    assert "ended with 9 and said not mine" in result.stderr


@pytest.mark.parametrize(
    ("pause", "resume", "reason"),
    [
        ("kill -STOP $(cat {node}); sleep 600", "kill -CONT $(cat {node})", "not done after 3 s"),
        ("no-such-command", "no-such-command", "'no-such-command' ended with 127"),
    ],
)
def test_a_hook_that_hangs_or_does_not_exist_is_one_line_and_is_undone(
    kafka_cluster: Cluster,
    draw: Draw,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pause: str,
    resume: str,
    reason: str,
) -> None:
    draw(repeat(PAUSED))
    for node, broker in kafka_cluster.nodes.items():
        (tmp_path / f"{node}").write_text(f"{broker.pid}")
    monkeypatch.chdir(tmp_path)
    words = [f"--on=pause={pause}", f"--on=resume={resume}", "--on-timeout", "3"]
    result = run(kafka_cluster.bootstrap, *words)
    for broker in kafka_cluster.nodes.values():
        with Wire(broker.bootstrap) as wire:
            wire.ask(api_versions.Request(), 0, api_versions.Response)  # it runs
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    assert reason in line


def test_a_cluster_that_cannot_be_restored_is_not_sound(
    bootstrap: str, draw: Draw, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    draw(repeat(ACK_LOST))
    real = VerifyTarget.close

    def close(target: VerifyTarget) -> None:
        real(target)
        raise CannotError("node 2 does not serve")

    monkeypatch.setattr(VerifyTarget, "close", close)
    json_path = tmp_path / "verify.json"
    result = run(bootstrap, "--runs", "1", "--json", str(json_path))
    assert result.exit_code == 2
    assert "the cluster could not be restored: node 2 does not serve" in result.stderr
    assert "no promise was broken" not in result.stdout
    assert json_path.exists()


def test_no_such_host() -> None:
    result = run("127.0.0.1:1", "--runs", "1")
    assert result.exit_code == 2
    assert "no broker of 127.0.0.1:1 answers" in result.stderr
