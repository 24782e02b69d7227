"""SECURITY.md names tests for what it promises: they exist. And a promise that is about code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
CHECKS_SECRETS = (
    "minikafka/security/plain.py",
    "minikafka/security/scram.py",
    "minikafka/security/node_proof.py",
)
SECRET_NAMES = re.compile(r"password|stored_key|server_key|secret|proof\b", re.IGNORECASE)


def names_in(path: Path) -> set[str]:
    """The names of all tests of a file, those in classes too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_the_tests_that_the_page_names_exist(path: str, name: str) -> None:
    assert name in names_in(ROOT / path)


def test_every_promise_about_hostile_input_has_a_test() -> None:
    rows = [line for line in PAGE.partition("## Hostile input")[2].splitlines() if "|" in line]
    assert len(rows) > 20
    assert all("::test_" in row for row in rows[2:])


def compares_secrets(tree: ast.AST) -> list[int]:
    """Lines that compare something with a secret's name by ``==`` or ``!=``."""
    found: list[int] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        if not any(isinstance(one, ast.Eq | ast.NotEq) for one in node.ops):
            continue
        sides = [node.left, *node.comparators]
        if any(isinstance(side, ast.Constant) or _is_length(side) for side in sides):
            continue  # nothing is learned about a secret from these
        if any(SECRET_NAMES.search(ast.unparse(side)) for side in sides):
            found.append(node.lineno)
    return found


def _is_length(side: ast.expr) -> bool:
    return isinstance(side, ast.Call) and ast.unparse(side.func) == "len"


def test_the_search_for_comparisons_finds_them() -> None:
    assert compares_secrets(ast.parse("a = one.stored_key == other")) == [1]
    assert compares_secrets(ast.parse("password != expected_password")) == [1]
    assert compares_secrets(ast.parse("password == ''")) == []
    assert compares_secrets(ast.parse("username == other")) == []


@pytest.mark.parametrize("path", CHECKS_SECRETS)
def test_secrets_are_compared_in_constant_time(path: str) -> None:
    source = (ROOT / path).read_text(encoding="utf-8")
    assert "hmac.compare_digest(" in source
    assert compares_secrets(ast.parse(source)) == []
