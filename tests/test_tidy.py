"""Style as a test. The rules are in tests/tidy/; each brings examples that prove that it works."""

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from tests.tidy import of_project, of_python, of_tests, of_text
from tests.tidy.source import RULES, Rule, Source, read_project

NAMES = [check.name for check in RULES]
EVERY_RULE = pytest.mark.parametrize("rule", RULES, ids=NAMES)


@cache
def project() -> list[Source]:
    return read_project()


def fail_if(found: list[str], rule_name: str) -> None:
    if found:
        pytest.fail("\n".join([f"{len(found)} against {rule_name}:", *found]), pytrace=False)


@EVERY_RULE
def test_the_project_keeps_the_rule(rule: Rule) -> None:
    found = [
        str(finding)
        for source in project()
        if source.path not in rule.allowed
        for finding in rule.findings(source)
    ]
    fail_if(found, rule.name)


@EVERY_RULE
def test_the_rule_objects_to_its_bad_examples_only(rule: Rule) -> None:
    silent = [source.path for source in rule.objects_to if not list(rule.findings(source))]
    assert rule.objects_to
    assert not silent, f"{rule.name} finds nothing wrong in its own bad examples {silent}"
    loud = [str(finding) for source in rule.accepts for finding in rule.findings(source)]
    assert rule.accepts
    assert not loud, f"{rule.name} objects to its own good examples: {loud}"


@EVERY_RULE
def test_every_exception_is_still_needed(rule: Rule) -> None:
    paths = {source.path: source for source in project()}
    gone = [path for path in rule.allowed if path not in paths]
    assert not gone, f"{rule.name} allows files that do not exist: {gone}"
    kept = [path for path in rule.allowed if not list(rule.findings(paths[path]))]
    assert not kept, f"{rule.name} allows what these files no longer do: {kept}"
    unexplained = [path for path, reason in rule.allowed.items() if len(reason) < 10]
    assert not unexplained, f"{rule.name} allows without a reason: {unexplained}"


@pytest.mark.parametrize("check", of_project.CHECKS, ids=lambda check: check.__name__)
def test_the_project_fits_together(check: Callable[[list[Source]], Iterator[str]]) -> None:
    found = list(check(project()))
    fail_if(found, check.__name__)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("make test", None),
        ("PYTHON=python3 make env", None),
        ("make coffee", "no target"),
        ("python -m benchmarks.coffee", "no module"),
        ("pip install minikafka", None),
        ("it's not a command", None),
    ],
)
def test_a_command_in_a_document_is_looked_up(line: str, problem: str | None) -> None:
    found = of_project.wrong_command(of_project.words_of(line))
    assert (problem in found) if found and problem else (found is problem)


def test_import_circles_are_found() -> None:
    imports = {"a": "b", "b": "c", "c": "ad", "d": "", "e": "f", "f": "e", "g": "a"}
    found = [sorted(circle) for circle in of_project.circles(imports)]
    assert found == [["a", "b", "c"], ["e", "f"]]


def test_rules_of_every_kind_are_registered() -> None:
    modules = {rule.check.__module__ for rule in RULES}
    assert modules == {of_python.__name__, of_tests.__name__, of_text.__name__}
    assert len(set(NAMES)) == len(NAMES)
