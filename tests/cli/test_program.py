"""The program as a whole: help, usage errors, what is imported."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from minikafka.cli.lazy_group import LazyGroup
from minikafka.cli.main import main

COMMANDS = [
    "serve",
    "topic",
    "produce",
    "consume",
    "group",
    "share-group",
    "transaction",
    "user",
    "quota",
    "acl",
    "client-metrics",
    "cluster",
    "quorum",
    "lab",
    "log",
]


ASK_A_CLUSTER = {"topic", "group", "share-group", "transaction", "acl", "user", "quota"}


def invoke(*words: str) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "100"}).invoke(main, words)
    return result.exit_code, result.stdout, result.stderr


def all_commands() -> list[list[str]]:
    paths: list[list[str]] = []

    def walk(group: click.Group, path: list[str]) -> None:
        for name in group.commands:
            command = group.commands[name]
            paths.append([*path, name])
            if isinstance(command, click.Group):
                walk(command, [*path, name])

    walk(main, [])
    return paths


def test_help_lists_every_command_and_how_to_get_started() -> None:
    exit_code, stdout, _ = invoke("--help")
    assert exit_code == 0
    assert "minikafka topic create orders --partitions 3" in stdout
    assert "MINIKAFKA_BOOTSTRAP" in stdout
    listed = [line.split()[0] for line in stdout.split("Commands:")[1].splitlines() if line.strip()]
    assert listed == COMMANDS


@pytest.mark.parametrize("path", all_commands(), ids=" ".join)
def test_every_command_explains_itself(path: list[str]) -> None:
    exit_code, stdout, _ = invoke(*path, "--help")
    assert exit_code == 0
    assert f"Usage: minikafka {' '.join(path)}" in stdout
    is_group = isinstance(_command(path), click.Group)
    assert is_group or f"  minikafka {' '.join(path)}" in stdout, "no example"


def _command(path: list[str]) -> click.Command:
    command: click.Command = main
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    return command


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in all_commands()
        if path[0] in {"topic", "group", "share-group", "transaction", "acl", "user", "quota"}
        and len(path) == 2
    ]
    + [["produce"], ["consume"]],
    ids=" ".join,
)
def test_every_command_for_a_cluster_takes_bootstrap_and_json(path: list[str]) -> None:
    options = {option for parameter in _command(path).params for option in parameter.opts}
    assert {"--bootstrap", "--json", "--connect-timeout", "--config", "-X"} <= options


def test_without_a_command_the_help_is_shown_and_the_usage_is_wrong() -> None:
    exit_code, _, stderr = invoke()
    assert exit_code == 2
    assert "Usage: minikafka" in stderr
    exit_code, _, stderr = invoke("topic")
    assert exit_code == 2
    assert "create" in stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["prodcue"], "minikafka: No such command 'prodcue'"),
        (["produce"], "minikafka produce: Missing argument 'TOPIC'; see minikafka produce --help"),
        (["topic", "create", "x", "--partitions", "0"], "minikafka topic create: Invalid value"),
        (["topic", "create", "x", "--config", "a"], "--config takes KEY=VALUE, not 'a'"),
        (["topic", "alter", "x"], "nothing to alter"),
        (["topic", "list", "--bootstrap", "localhost:x"], "bootstrap server 'localhost:x'"),
        (["produce", "x", "--key-separator", ""], "--key-separator may not be empty"),
        (["produce", "x", "--header", "=v"], "--header takes KEY=VALUE"),
        (["consume", "x", "--json", "--format", "a"], "exclude each other"),
        (["consume", "x", "--group", "g", "--partition", "1"], "exclude each other"),
        (["consume", "x", "--share", "g", "--group", "g"], "--share excludes --group"),
        (["share-group", "reset-offsets", "g", "--all-topics"], "exactly one of --to-earliest"),
        (["consume", "x", "--format", "{nonsense}"], "there is no placeholder {nonsense}"),
        (["group", "reset-offsets", "g", "--all-topics"], "exactly one of --to-earliest"),
        (
            ["group", "reset-offsets", "g", "--to-earliest", "--to-latest", "--all-topics"],
            "exactly one of --to-earliest",
        ),
        (["group", "reset-offsets", "g", "--to-earliest"], "either --topic or --all-topics"),
        (
            ["group", "reset-offsets", "g", "--to-datetime", "noon", "--all-topics"],
            "'noon' is not a time",
        ),
        (["log", "dump", "no-such-file"], "does not exist"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(words: list[str], expected: str) -> None:
    exit_code, stdout, stderr = invoke(*words)
    assert exit_code == 2
    assert expected in stderr
    assert len(stderr.splitlines()) == 1
    assert stdout == ""


def test_an_unreachable_broker_is_named_with_what_to_do() -> None:
    address = ["--bootstrap", "127.0.0.1:1", "--connect-timeout", "0.2"]
    for words in (["topic", "list"], ["produce", "x"], ["consume", "x"], ["group", "list"]):
        exit_code, stdout, stderr = invoke(*words, *address)
        assert exit_code == 1
        assert f"minikafka {' '.join(words[:1])}" in stderr
        assert "no Kafka broker answers at 127.0.0.1:1" in stderr
        assert "minikafka serve" in stderr
        assert len(stderr.splitlines()) == 1
        assert stdout == ""


def test_the_version_is_the_packages() -> None:
    exit_code, stdout, _ = invoke("--version")
    assert exit_code == 0
    assert stdout.startswith("minikafka, version ")


def test_help_imports_neither_trio_nor_the_client_nor_rich() -> None:
    code = (
        "import sys\n"
        "from minikafka.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'trio', 'rich', 'minikafka_client', 'msgpack', 'logging', 'minikafka.protocol'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_the_lazy_group_is_a_group_like_others() -> None:
    group = LazyGroup({"log": ("minikafka.cli.log", "files")}, name="program")
    assert list(group.commands) == ["log"]
    assert "log" in group.commands
    assert "topic" not in group.commands

    @group.command("more")
    def more() -> None:
        """Another one."""

    assert list(group.commands) == ["log", "more"]
    assert len(group.commands) == 2
    assert group.commands["more"] is more
    del group.commands["more"]
    assert list(group.commands) == ["log"]
    assert group.main(["log", "--help"], standalone_mode=False) == 0
