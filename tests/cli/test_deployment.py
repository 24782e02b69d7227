"""What deploy/ has for systemd and containers calls commands and sets settings that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from minikafka.broker.settings.config import load_config
from minikafka.cli.main import main

DEPLOY = Path(__file__).parents[2] / "deploy"


def options_of(command: str) -> set[str]:
    subcommand = main.commands[command]
    assert isinstance(subcommand, click.Command)
    return {option for parameter in subcommand.params for option in parameter.opts}


def words_of_unit() -> list[str]:
    text = (DEPLOY / "minikafka.service").read_text().replace("\\\n", " ")
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    return shlex.split(line)


def words_of_containerfile() -> list[str]:
    (line,) = re.findall(r"^CMD \[(.*)\]$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)
    return [word.strip().strip('"') for word in line.split(",")]


def nodes_of_compose() -> list[list[str]]:
    text = (DEPLOY / "compose.yaml").read_text()
    nodes = re.findall(r"command:\n((?: +- \S+\n)+)", text)
    return [re.findall(r"- (\S+)", node) for node in nodes]


def test_the_unit_calls_serve_with_options_that_exist() -> None:
    program, command, *words = words_of_unit()
    assert program.endswith("/minikafka")
    assert command == "serve"
    given = {word for word in words if word.startswith("--")}
    assert given <= options_of("serve")
    variables = set(re.findall(r"\$\{(\w+)\}", " ".join(words)))
    defined = re.findall(r"^(\w+)=", (DEPLOY / "node.env").read_text(), re.MULTILINE)
    assert variables == set(defined)


def test_the_image_calls_serve_with_options_that_exist() -> None:
    command, *words = words_of_containerfile()
    assert command == "serve"
    assert {word for word in words if word.startswith("--")} <= options_of("serve")


def test_the_containers_are_one_cluster() -> None:
    nodes = nodes_of_compose()
    assert len(nodes) == 3
    quorums = {word for node in nodes for word in node if word.startswith("--quorum")}
    assert len(quorums) == 1
    for number, (command, *words) in enumerate(nodes, start=1):
        assert command == "serve"
        assert f"--node-id={number}" in words
        assert {word.partition("=")[0] for word in words} <= options_of("serve")
        settings = [word.removeprefix("--set=") for word in words if "--set" in word]
        assert load_config(None, settings, {}).minikafka_internal_secret_file


@pytest.mark.parametrize("path", sorted(DEPLOY.glob("*.toml")), ids=lambda path: path.name)
def test_settings_files_can_be_read(path: Path) -> None:
    config = load_config(path.read_text(), [], {})
    assert config.min_insync_replicas == 2
    assert config.minikafka_internal_secret_file
