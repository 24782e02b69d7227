"""`consume --filter`: what the expressions mean."""

import click
import pytest

from minikafka.cli.record_filter import compile_filters
from minikafka_client import ConsumerRecord
from tests.cli.conftest import CommandLine

ALICE = ConsumerRecord(
    "orders", 2, 41, 1, b"alice", b"7 pears", (("kind", b"fruit"), ("kind", None))
)
NOTHING = ALICE._replace(key=None, value=None, headers=())


@pytest.mark.parametrize(
    ("expressions", "of_alice", "of_nothing"),
    [
        (["key=alice"], True, False),
        (["key!=alice"], False, True),
        (["key=ali"], False, False),
        (["value~pears?$"], True, False),
        (["value~^pear"], False, False),
        (["header.kind=fruit"], True, False),
        (["header.kind!=fruit"], False, True),
        (["header.kind~.*"], True, False),
        (["key=alice", "value=7 plums"], False, False),
        (["key=alice", "value=7 pears"], True, False),
    ],
)
def test_expressions_are_about_key_value_and_headers(
    expressions: list[str], of_alice: bool, of_nothing: bool
) -> None:
    is_shown = compile_filters(expressions)
    assert (is_shown(ALICE), is_shown(NOTHING)) == (of_alice, of_nothing)


@pytest.mark.parametrize("expression", ["alice", "offset=1", "header.=x", "value~("])
def test_other_expressions_are_wrong_usage(expression: str) -> None:
    with pytest.raises(click.UsageError, match="--filter"):
        compile_filters([expression])


def test_only_what_passes_is_printed_and_counted(cli: CommandLine) -> None:
    cli.ok("produce", "fruit", stdin="7 pears\n8 plums\n9 pears\n")
    words = ("consume", "fruit", "--from-beginning", "--filter", "value~pears")
    assert cli.ok(*words, "--max-records", "2") == "7 pears\n9 pears\n"
