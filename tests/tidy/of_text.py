"""Rules on the text of any file."""

import re
from collections.abc import Iterator

from tests.tidy.source import ROOT, Source, rule

FILE_SIZE_BYTES_MAX = 256 * 1024

# These rules' own examples would break them.
OWN_EXAMPLES = {"tests/tidy/of_text.py": "holds the rules' examples"}

MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|home|root|Users|mnt|opt)/\w+")
REGISTRY = re.compile(
    r"pypi\.org|pythonhosted\.org|registry\.npmjs|index[-_]url|find[-_]links"
    r"|artifactory|/simple/|proxy\.golang",
    re.IGNORECASE,
)
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK|WIP)\b")
IGNORE = re.compile(
    r"#\s*(?:type:\s*ignore|pyright:\s*ignore|noqa|pragma:\s*no\s*(?:cover|branch))"
    r"(?P<codes>\[[^\]]*\]|:\s*[A-Z]+[0-9]+(?:\s*,\s*[A-Z]+[0-9]+)*)?(?P<rest>.*)"
)
SWITCHED_OFF = re.compile(
    r"^#\s*(?:ruff|flake8)\s*:\s*noqa|^#\s*(?:mypy|pyright)\s*:|^#\s*fmt\s*:\s*off"
)
DOCUMENT = re.compile(r"(?<![\w/*.-])([A-Z][A-Z_]+\.md)\b")


def _each(source: Source, pattern: re.Pattern[str], message: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(source.lines, start=1):
        found = pattern.search(line)
        if found:
            yield number, f"{message}: {found.group()}"


@rule(
    applies=lambda source: True,
    objects_to={"tests/capture.txt": "0" * (FILE_SIZE_BYTES_MAX + 1)},
    accepts={"README.md": "0"},
)
def no_file_is_a_blob(source: Source) -> Iterator[tuple[int, str]]:
    if len(source.text) > FILE_SIZE_BYTES_MAX:
        yield 1, f"{len(source.text)} characters; generate it, or fetch it in the demo"


@rule(
    applies=lambda source: True,
    objects_to={"README.md": "see /home/anna/minikafka", "a.py": "D = '/work/main'"},
    accepts={"README.md": "--data-dir /var/lib/minikafka, https://example.org/home/page"},
    allowed=OWN_EXAMPLES,
)
def no_path_of_one_machine(source: Source) -> Iterator[tuple[int, str]]:
    return _each(source, MACHINE_PATH, "exists on one machine only")


@rule(
    applies=lambda source: True,
    objects_to={
        "Makefile": "pip install --index-url X",
        "constraints.txt": "a @ https://files.pythonhosted.org/a.whl",
    },
    accepts={"constraints.txt": "trio==0.30.0"},
    allowed=OWN_EXAMPLES,
)
def no_address_of_a_package_registry(source: Source) -> Iterator[tuple[int, str]]:
    return _each(source, REGISTRY, "where packages come from is the machine's business")


@rule(
    applies=lambda source: True,
    objects_to={"a.py": "# TODO: retention", "README.md": "FIXME"},
    accepts={"a.py": "# Retention is by size only; see issue 7."},
    allowed=OWN_EXAMPLES,
)
def nothing_is_left_for_later(source: Source) -> Iterator[tuple[int, str]]:
    return _each(source, UNFINISHED, "do it, or open an issue")


@rule(
    applies=lambda source: source.is_python,
    objects_to={
        "a.py": "x = f()  # type: ignore[no-untyped-call]",
        "b.py": "x = f()  # noqa: B008",
        "c.py": "x = f()  # noqa",
        "d.py": "x = f()  # pragma: no cover",
        "e.py": "# mypy: ignore-errors",
        "f.py": "# ruff: noqa",
    },
    accepts={
        "a.py": "x = f()  # type: ignore[no-untyped-call]  # cramjam has no stubs",
        "b.py": "# click evaluates this once, at import.\nx = f()  # noqa: B008",
        "c.py": "x = f()  # pragma: no cover - only Windows comes here",
    },
    allowed=OWN_EXAMPLES,
)
def an_ignored_check_says_why(source: Source) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(source.lines, start=1):
        if SWITCHED_OFF.match(line):
            yield number, f"switches a tool off for the whole file: {line}"
        found = IGNORE.search(line)
        if not found:
            continue
        needs_code = "pragma" not in found.group()
        if needs_code and not found["codes"]:
            yield number, f"ignores everything; name the rule: {found.group()}"
        # A comment may cover several lines below it.
        above = (text.strip() for text in reversed(source.lines[: number - 1]))
        before = next((text for text in above if not IGNORE.search(text)), "")
        if not re.search(r"\w{2}", found["rest"]) and not before.startswith("#"):
            yield number, f"gives no reason, here or on the line above: {found.group()}"


@rule(
    applies=lambda source: source.path.endswith((".py", ".md", ".toml")),
    objects_to={"a.py": '"""Explained in PLAN_OF_THE_HOUSE.md."""'},
    accepts={"a.py": '"""Explained in CONTRIBUTING.md."""'},
    allowed={
        **OWN_EXAMPLES,
        "pyproject.toml": "names NEWS.md, which exists after the first release",
        "newsfragments/README.md": "names NEWS.md, which exists after the first release",
    },
)
def a_document_that_is_named_exists(source: Source) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(source.lines, start=1):
        for name in DOCUMENT.findall(line):
            if not (ROOT / name).exists() and not (ROOT / source.path).with_name(name).exists():
                yield number, f"there is no {name}"
