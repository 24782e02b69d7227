"""Where the time goes: samples become steps, steps a table, and a table a part of a document."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import main
from benchmarks.document import DocumentError, marks, replace_part
from benchmarks.flame import FlameGraphs, ProfileError, sampled
from benchmarks.interpreters import InterpreterError, find_interpreter, interpreter
from benchmarks.processes import broker
from benchmarks.raw_client import RawClient, api_versions_request
from benchmarks.steps import Exchange, as_table, share_of_steps, step_of

LOOP = "run_broker (minikafka/broker/run.py:118);run (trio/_core/_run.py:2532)"
CONNECTION = f"{LOOP};Connection._serve_all (minikafka/broker/net/connection.py:172)"
APPEND = f"{CONNECTION};SteadyProduce.serve (minikafka/broker/net/steady_produce.py:172)"
LOG = f"{APPEND};Log.append_as_leader (minikafka/storage/log.py:526)"


@pytest.mark.parametrize(
    ("stack", "step"),
    [
        (LOOP, "trio: epoll, tasks, wake-ups"),
        (f"{LOOP};process_events (trio/_core/_io_epoll.py:2)", "trio: epoll, tasks, wake-ups"),
        (CONNECTION, "connection: frames, order, limits"),
        (f"{CONNECTION};sock_call (socketmodule.c:9)", "connection: frames, order, limits"),
        (f"{CONNECTION};sendmsg (libc.so.6)", "send: the system call"),
        (f"{CONNECTION};recv (libc.so.6)", "receive: the system call"),
        (APPEND, "handler"),
        (LOG, "log: offsets, index, segment"),
        (f"{LOG};pwritev64v2 (libc.so.6)", "write to the log: the system call"),
        (f"{LOG};check (minikafka/storage/validation.py:2)", "check the batch"),
        (f"{LOG};crc32c (minikafka/protocol/crc.py:2)", "CRC32C"),
        (f"{LOG};preadv (libc.so.6)", "read from the log: the system call"),
        ("nobody (knows.py:1)", "other"),
    ],
)
def test_a_sample_belongs_to_its_innermost_step(stack: str, step: str) -> None:
    assert step_of(stack.split(";")) == step


def test_shares_leave_out_other_threads_and_waiting() -> None:
    lines = [
        f"{CONNECTION} 30",
        f"{LOG} 10",
        f"{LOOP};epoll_wait (libc.so.6) 500",
        "_bootstrap (threading.py:1);read (libc.so.6) 100",
    ]
    assert share_of_steps(lines) == {
        "connection: frames, order, limits": 0.75,
        "log: offsets, index, segment": 0.25,
    }
    assert share_of_steps([]) == {}


def test_the_table_has_steps_totals_and_limits() -> None:
    environment = {"processor": "Z80", "cores": "2 of 2", "kernel": "Linux", "python": "3.11"}
    exchange = Exchange(
        name="produce 100 B",
        latency=60.0,
        cpu=80.0,
        echo=20.0,
        steps={"handler": 48.0, "CRC32C": 32.0},
        limits={"copy": 0.5},
    )
    table = as_table([exchange], environment, 0.25)
    assert "| microseconds | produce 100 B |" in table
    assert "| handler | 48.00 |" in table
    assert "| **the broker's processor time** | 80.00 |" in table
    assert "| limit: p50 of an echo of the request | 20.00 |" in table
    assert "| limit: copy | 0.5 |" in table
    assert "| receive" not in table
    assert "Measured on Z80, 2 of 2, Linux, 3.11; 0.25 processors" in table


def test_a_part_of_a_document_is_replaced_and_the_rest_kept() -> None:
    first, last = marks("steps")
    document = f"before\n{first}\nold\n{last}\nafter\n"
    assert replace_part(document, "steps", "new\n\n") == f"before\n{first}\nnew\n{last}\nafter\n"


@pytest.mark.parametrize("document", ["", "{last} {first}", "{first}{last}{first}{last}"])
def test_a_document_without_a_place_is_refused(document: str) -> None:
    first, last = marks("steps")
    with pytest.raises(DocumentError, match="once each"):
        replace_part(document.format(first=first, last=last), "steps", "new")


def test_the_page_on_performance_has_a_place_for_each_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "performance.md").read_text()
    for name in ("steps", "more brokers", "python versions"):
        assert "instead" in replace_part(page, name, "instead")


# --- flame graphs --------------------------------------------------------------------------------


def test_each_broker_gets_a_file_of_its_own() -> None:
    graphs = FlameGraphs(Path("produce.svg"))
    assert [graphs.next_path().name for _ in range(3)] == [
        "produce.svg",
        "produce-2.svg",
        "produce-3.svg",
    ]


def test_without_py_spy_the_text_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProfileError, match="pip install"), sampled(1, tmp_path / "f.svg", "raw"):
        pass


def test_a_process_that_cannot_be_watched_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "py-spy"
    program.write_text("#!/bin/sh\necho 'Error: Permission Denied'\nexit 1\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    refused = pytest.raises(ProfileError, match="process 1: Error: Permission Denied; run it as")
    with refused, sampled(1, tmp_path / "f.svg", "raw"):
        pass


# --- interpreters --------------------------------------------------------------------------------


def test_an_interpreter_has_to_be_there_and_to_import_minikafka(tmp_path: Path) -> None:
    with pytest.raises(InterpreterError, match=r"there is no interpreter python0\.9"):
        find_interpreter("python0.9")
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 'ModuleNotFoundError: No module named trio' >&2\nexit 1\n")
    other.chmod(0o700)
    with pytest.raises(InterpreterError, match=r"cannot import minikafka .*No module named trio"):
        find_interpreter(str(other))
    answer = CliRunner().invoke(main, ["pythons", "python0.9"])
    assert answer.exit_code == 2
    assert "there is no interpreter python0.9" in answer.stderr


def test_a_broker_runs_under_the_chosen_interpreter(tmp_path: Path) -> None:
    link = tmp_path / "another-python"
    link.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    link.chmod(0o700)
    path, version = find_interpreter(str(link))
    assert (path, version) == (str(link), ".".join(map(str, sys.version_info[:3])))
    token = interpreter.set(path)
    try:
        with broker(tmp_path / "broker") as server:
            client = RawClient(server.bootstrap)
            assert client.ask(api_versions_request())
            client.close()
            command = Path(f"/proc/{server.pid}/cmdline").read_bytes().split(b"\0")
    finally:
        interpreter.reset(token)
    assert b"minikafka" in command
    assert not [word for word in command if b"started_by" in word]
