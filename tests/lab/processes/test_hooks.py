"""Commands of the user for what is done to nodes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from minikafka.lab.processes.target import Action
from minikafka.lab.processes.verify_target import HookError, Hooks, UnreachableError, VerifyTarget


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


def test_a_hook_that_hangs_is_given_up() -> None:
    hooks = Hooks({Action.HEAL: "exec sleep 60"}, timeout_s=0.1)
    with pytest.raises(HookError, match="was not done after"):
        hooks.run(Action.HEAL, 1)


def test_a_cluster_that_does_not_answer_is_named() -> None:
    with pytest.raises(UnreachableError, match=r"no broker of 127\.0\.0\.1:1 answers"):
        VerifyTarget("127.0.0.1:1")
