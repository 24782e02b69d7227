"""Rules on how the project's files fit together: each takes all of them and yields its findings."""

import re
import shlex
import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib import import_module, metadata
from typing import Any

import click
import grimp

from tests.tidy.of_python import PURE_FOLDERS
from tests.tidy.source import ROOT, Source

DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
# Folders of tests/ that mirror no package.
OTHER_TEST_FOLDERS = {
    "fuzz": "hostile bytes for every parser (make fuzz)",
    "golden": "what earlier versions wrote or sent, byte for byte",
    "history": "judges what clients sent and read, no matter which broker served them",
    "faults": "kills, damage, full disks and rude clients against real processes",
    "compatibility": "what of Kafka is served, as a page",
    "interop": "the clients that are not ours",
    "kit": "what tests share: connections, brokers in this process, brokers that are judged",
    "peers": "Apache Kafka's broker and Java client beside ours",
    "scripts": "scenarios, readable as a story",
    "simulation": "whole clusters in one process, from one seed",
    "tidy": "the rules that tests/test_tidy.py runs",
    "upgrade": "old and new brokers in one cluster (make upgrade-test)",
}
CODE_BLOCK = re.compile(r"^```(?:sh|bash|console|shell)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
PACKAGE_ROOTS = ("minikafka", "client/minikafka_client", "spark_connector/pyspark_minikafka")


@cache
def project_settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def folders_with_python(sources: list[Source]) -> set[str]:
    return {source.path.rsplit("/", 1)[0] for source in sources if source.path.count("/")}


# --- documents ----------------------------------------------------------------------------------


def shell_lines(document: str) -> Iterator[str]:
    """Yield what a document tells its reader to run: code blocks, and spans that look like it."""
    blocks = CODE_BLOCK.findall(document)
    for block in blocks:
        for line in block.replace("\\\n", " ").splitlines():
            yield line.removeprefix("$ ").split("#")[0].strip()
    prose = re.sub(r"^```.*?^```", "", document, flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"`((?:make|minikafka|python -m|\.venv/bin/\S+) [^`]+)`", prose)


def words_of(line: str) -> list[str]:
    """Return a command line's words without `VARIABLE=value` and up to the first pipe."""
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    words = [word.removeprefix(".venv/bin/") for word in words]
    while words and re.match(r"^[A-Z_]+=", words[0]):
        del words[0]
    ends = [index for index, word in enumerate(words) if word in {"|", "&&", ";", "&", ">"}]
    return words[: ends[0]] if ends else words


def wrong_command(words: list[str]) -> str | None:
    """Return what is wrong with a command that a document names, or None."""
    match words:
        case ["make", *targets]:
            known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
            unknown = {word for word in targets if "=" not in word and word[0] != "-"} - known
            return f"the Makefile has no target {sorted(unknown)}" if unknown else None
        case ["minikafka", *arguments]:
            return wrong_subcommand(arguments)
        case ["python" | "python3", "-m", module, *_] if module.split(".")[0] in {
            "benchmarks",
            "examples",
            "minikafka",
            "tests",
        }:
            path = ROOT / module.replace(".", "/")
            if not path.with_suffix(".py").exists() and not (path / "__main__.py").exists():
                return f"there is no module {module} to run"
        case _:
            pass
    return None


def wrong_subcommand(arguments: list[str]) -> str | None:
    """Walk the command line's groups along `arguments` and check the options that are named."""
    (entry,) = metadata.entry_points(group="console_scripts", name="minikafka")
    module, _, attribute = entry.value.partition(":")
    command: object = getattr(import_module(module), attribute)
    path = ["minikafka"]
    while isinstance(command, click.Group):
        name = next((word for word in arguments if not word.startswith("-")), None)
        if name is None or not re.fullmatch(r"[a-z][a-z-]*", name):
            return None
        if name not in command.commands:
            return f"{' '.join(path)} has no command {name}"
        arguments = arguments[arguments.index(name) + 1 :]
        command = command.commands[name]
        path.append(name)
    if not isinstance(command, click.Command):
        return f"{entry.value} is not a click command"
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    known |= {option for parameter in command.params for option in parameter.secondary_opts}
    options = {word.split("=")[0] for word in arguments if re.match(r"^--[a-z]", word)}
    unknown = options - known
    return f"{' '.join(path)} has no option {sorted(unknown)}" if unknown else None


def commands_in_documents_exist(sources: list[Source]) -> Iterator[str]:
    for source in sources:
        if source.path in DOCUMENTS:
            for line in shell_lines(source.text):
                problem = wrong_command(words_of(line))
                if problem:
                    yield f"{source.path}: `{line}`: {problem}"


def paths_in_documents_exist(sources: list[Source]) -> Iterator[str]:
    tops = {path.split("/")[0] for path in (source.path for source in sources) if "/" in path}
    for source in sources:
        if source.path in DOCUMENTS:
            for path in re.findall(r"`([\w.-]+(?:/[\w.-]+)+/?|[\w.-]+/)`", source.text):
                if path.split("/")[0] in tops and not (ROOT / path).exists():
                    yield f"{source.path}: there is no {path}"


# --- architecture -------------------------------------------------------------------------------


def every_floor_has_its_contracts(sources: list[Source]) -> Iterator[str]:
    above = {"minikafka.cli", "minikafka.lab", "minikafka.testing"}
    below_broker = {
        f"minikafka.{source.path.split('/')[1]}"
        for source in sources
        if source.is_under("minikafka") and source.path.count("/") >= 2
    } - {"minikafka.broker", *above}
    contracts = {
        contract["id"]: contract
        for contract in project_settings()["tool"]["importlinter"]["contracts"]
    }
    for name in ("pure-floors", "one-door-to-the-disk", "broker-without-client"):
        missing = below_broker - set(contracts[name]["source_modules"])
        if missing:
            yield f"pyproject.toml: contract {name} leaves out {sorted(missing)}"
    missing = (below_broker | above) - {"minikafka.protocol"}
    missing -= set(contracts["client-only-protocol"]["forbidden_modules"])
    if missing:
        yield f"pyproject.toml: contract client-only-protocol leaves out {sorted(missing)}"
    missing = below_broker - {folder.replace("/", ".") for folder in PURE_FOLDERS}
    if missing:
        yield f"tests/tidy/of_python.py: PURE_FOLDERS leaves out {sorted(missing)}"
    pure_client = {
        folder.removeprefix("client/").replace("/", ".")
        for folder in PURE_FOLDERS
        if folder in folders_with_python(sources) and folder.startswith("client/")
    }
    missing = pure_client - set(contracts.get("pure-client", {}).get("source_modules", ()))
    if missing:
        yield f"pyproject.toml: contract pure-client leaves out {sorted(missing)}"


def no_import_circle(_: list[Source]) -> Iterator[str]:
    """Imports for type checkers count: a file should be understood without those above it."""
    graph = grimp.build_graph(
        *(root.rsplit("/", 1)[-1] for root in PACKAGE_ROOTS),
        exclude_type_checking_imports=False,
        cache_dir=None,  # a cache goes by dates, which a checkout may turn back
    )
    imported_by = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    for circle in circles(imported_by):
        yield f"an import circle of {len(circle)} modules: {', '.join(sorted(circle))}"


def circles(successors: Mapping[str, Collection[str]]) -> list[frozenset[str]]:
    """Return the strongly connected components with more than one member (Tarjan)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[frozenset[str]] = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for other in sorted(successors[node]):
            if other not in order:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], order[other])
        if lowest[node] == order[node]:
            position = stack.index(node)
            if len(stack) - position > 1:
                found.append(frozenset(stack[position:]))
            del stack[position:]

    for node in sorted(successors):
        if node not in order:
            visit(node)
    return found


def tests_mirror_the_packages(sources: list[Source]) -> Iterator[str]:
    mirrored = {root.rsplit("/", 1)[-1] for root in PACKAGE_ROOTS} | {"benchmarks", "examples"}
    mirrored |= {
        source.path.split("/")[1]
        for source in sources
        if source.is_under("minikafka") and source.path.count("/") >= 2
    }
    mirrored |= {"client", "spark", "spark_connector"}
    for source in sources:
        if source.is_under("tests") and source.path.count("/") >= 2:
            folder = source.path.split("/")[1]
            if folder not in mirrored and folder not in OTHER_TEST_FOLDERS:
                yield f"{source.path}: tests/{folder}/ mirrors no package"


# --- packaging ----------------------------------------------------------------------------------


def normalized(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name, f"{requirement!r} does not begin with a package's name"
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def every_dependency_is_pinned(_: list[Source]) -> Iterator[str]:
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line.split("==")[0] for line in pins if "==" in line}
    project = project_settings()["project"]
    extras = project["optional-dependencies"].values()
    pinned.add(project["name"])  # an extra may ask for another one
    for requirement in [*project["dependencies"], *(one for extra in extras for one in extra)]:
        if normalized(requirement) not in pinned:
            yield f"constraints.txt does not pin {requirement}; run make constraints"


def constraints_are_names_and_versions(_: list[Source]) -> Iterator[str]:
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if not re.fullmatch(r"#.*|[a-z0-9-]+==[a-z0-9.!+]+", line):
            yield f"constraints.txt: not NAME==VERSION: {line!r}"


def news_fragments_are_well_named(sources: list[Source]) -> Iterator[str]:
    kinds = [kind["directory"] for kind in project_settings()["tool"]["towncrier"]["type"]]
    name = re.compile(rf"newsfragments/\+[\w-]+\.(?:{'|'.join(kinds)})\.md")
    for source in sources:
        if source.is_under("newsfragments") and source.path != "newsfragments/README.md":
            if not name.fullmatch(source.path):
                yield f"{source.path}: not +WORD.KIND.md, with KIND one of {kinds}"
            if not source.text.strip():
                yield f"{source.path}: is empty"


def hooks_are_local(_: list[Source]) -> Iterator[str]:
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    for repository in re.findall(r"^\s*- repo: (.*)$", text, re.MULTILINE):
        if repository != "local":
            yield f".pre-commit-config.yaml: {repository} would be fetched; call a tool of .venv"


CHECKS = [
    commands_in_documents_exist,
    constraints_are_names_and_versions,
    every_dependency_is_pinned,
    every_floor_has_its_contracts,
    hooks_are_local,
    news_fragments_are_well_named,
    no_import_circle,
    paths_in_documents_exist,
    tests_mirror_the_packages,
]
