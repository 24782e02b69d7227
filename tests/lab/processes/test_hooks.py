"""Commands of the user for what is done to nodes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from minikafka.lab.processes import verify_target
from minikafka.lab.processes.target import Action
from minikafka.lab.processes.verify_target import HookError, Hooks, UnreachableError, VerifyTarget
from minikafka.protocol.messages import metadata


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["kill"], "write ACTION=COMMAND"),
        (["explode=true"], "actions are kill, stop, start"),
        (["kill=  "], "write ACTION=COMMAND"),
        (["kill=true"], "needs --on start="),
        (["isolate=true"], "needs --on heal="),
    ],
)
def test_hooks_that_cannot_work_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Hooks.parse(words)


def test_the_node_is_put_into_a_command(tmp_path: Path) -> None:
    hooks = Hooks.parse([f"kill=touch {tmp_path}/killed-{{node}}", "start=true"])
    hooks.run(Action.KILL, 7)
    assert (tmp_path / "killed-7").exists()


def test_a_hook_that_fails_is_named_with_its_code_and_what_it_said() -> None:
    hooks = Hooks.parse(["kill=echo no such node {node} >&2; exit 3", "start=true"])
    with pytest.raises(HookError, match="ended with 3 and said no such node 7"):
        hooks.run(Action.KILL, 7)


def test_a_hook_that_hangs_is_ended_with_all_that_it_has_started(tmp_path: Path) -> None:
    held = tmp_path / "held"
    os.mkfifo(held)
    descriptor = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    hooks = Hooks({Action.HEAL: f"sleep 600 > {held}; true"}, timeout_s=0.5)
    with pytest.raises(HookError, match=r"was not done after 0\.5 s"):
        hooks.run(Action.HEAL, 1)
    os.set_blocking(descriptor, True)
    assert os.read(descriptor, 1) == b""  # nobody holds it any more
    os.close(descriptor)


def test_a_hook_may_leave_a_broker_in_the_background(tmp_path: Path) -> None:
    end = tmp_path / "end"
    os.mkfifo(end)
    hooks = Hooks({Action.START: f"echo starting; cat {end} &"})
    hooks.run(Action.START, 1)
    assert end.write_bytes(b"x") == 1  # it is still there to read it


def test_a_command_that_does_not_exist_is_named() -> None:
    hooks = Hooks({Action.HEAL: "no-such-command {node}"})
    with pytest.raises(HookError, match=r"'no-such-command 1' ended with 127 and said .*not found"):
        hooks.run(Action.HEAL, 1)


def test_a_cluster_that_does_not_answer_is_named() -> None:
    with pytest.raises(UnreachableError, match=r"no broker of 127\.0\.0\.1:1 answers"):
        VerifyTarget("127.0.0.1:1")


def test_brokers_that_do_not_know_of_each_other_yet_are_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = iter((1, 2, 3, 3))

    def ask(*_: object, **__: object) -> metadata.Response:
        nodes = range(1, next(known) + 1)
        brokers = [metadata.Broker(node_id=one, host="127.0.0.1", port=1) for one in nodes]
        return metadata.Response(brokers=brokers, topics=[])

    monkeypatch.setattr(verify_target, "ask", ask)
    target = VerifyTarget("127.0.0.1:1, 127.0.0.1:2,127.0.0.1:3")
    target.close()
    assert target.nodes == (1, 2, 3)
    assert len(list(known)) == 1


def test_a_broker_that_stays_away_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers = [metadata.Broker(node_id=1, host="127.0.0.1", port=1)]
    answer = metadata.Response(brokers=brokers, topics=[])
    monkeypatch.setattr(verify_target, "ask", lambda *_, **__: answer)
    monkeypatch.setattr(verify_target, "_STARTING_S", -1.0)
    target = VerifyTarget("127.0.0.1:1,127.0.0.1:2")
    target.close()
    assert target.nodes == (1,)
