"""`minikafka consume --from --until`: a part of a topic, by offset or by time."""

import json
import signal

import pytest

from minikafka_client.sync import Producer, Writer
from tests.cli.conftest import CommandLine, line_of, lines_of
from tests.kit.waiting import look_until

START_MS = 1_359_619_200_000
"""2013-01-31T08:00:00 UTC."""
MINUTE_MS = 60_000


@pytest.fixture
def by_minute(cli: CommandLine, topic: str) -> str:
    """Ten records in each of partitions 0 and 1, one a minute from 08:00 on; 2 is empty."""
    with Writer(cli.bootstrap) as writer:
        for number in range(10):
            for partition in (0, 1):
                writer.send(
                    topic,
                    f"{partition}-{number}".encode(),
                    b"even" if number % 2 == 0 else b"odd",
                    partition=partition,
                    timestamp_ms=START_MS + number * MINUTE_MS,
                )
    return topic


def values(partitions: tuple[int, ...], first: int, until: int) -> list[str]:
    return [f"{partition}-{number}" for partition in partitions for number in range(first, until)]


@pytest.mark.parametrize(
    ("words", "first", "until"),
    [
        (["--until", "end"], 0, 10),
        (["--from-beginning", "--until", "end"], 0, 10),
        (["--from", "beginning", "--until", "4"], 0, 4),
        (["--from", "3", "--until", "7"], 3, 7),
        (["--from", "-2", "--until", "end"], 8, 10),
        (["--from", "2013-01-31T08:02:30", "--until", "2013-01-31T08:06"], 3, 6),
        (["--from", f"@{START_MS + MINUTE_MS}", "--until", f"@{START_MS + 2 * MINUTE_MS}"], 1, 2),
        (["--from", "-1h", "--until", "end"], 10, 10),
        (["--until", "5m ago"], 0, 10),
        (["--from", "7", "--until", "3"], 7, 7),
    ],
)
def test_a_part_of_every_partition(
    cli: CommandLine, by_minute: str, words: list[str], first: int, until: int
) -> None:
    shown = cli.ok("consume", by_minute, *words).splitlines()
    assert sorted(shown) == values((0, 1), first, until)


def test_each_partition_is_printed_in_order(cli: CommandLine, by_minute: str) -> None:
    shown = cli.ok("consume", by_minute, "--partition", "1", "--until", "end").splitlines()
    assert shown == values((1,), 0, 10)


def test_it_filters_and_prints_json(cli: CommandLine, by_minute: str) -> None:
    words = ("--from", "2", "--until", "6", "--filter", "key=odd", "--partition", "0", "--json")
    lines = cli.ok("consume", by_minute, *words).splitlines()
    assert [json.loads(line)["value"] for line in lines] == ["0-3", "0-5"]


def test_it_ends_before_until_if_enough_were_printed(cli: CommandLine, by_minute: str) -> None:
    words = ("--partition", "0", "--until", "end", "--max-records")
    assert cli.ok("consume", by_minute, *words, "2").splitlines() == values((0,), 0, 2)
    assert cli.ok("consume", by_minute, *words, "50").splitlines() == values((0,), 0, 10)


def test_an_offset_that_is_not_there_becomes_the_nearest_one(
    cli: CommandLine, by_minute: str
) -> None:
    words = ("consume", by_minute, "--partition", "0", "--from", "8", "--until", "12")
    outcome = cli.run(*words)
    assert outcome.exit_code == 0
    assert outcome.stdout.splitlines() == values((0,), 8, 10)
    assert "has offsets 0 to 10; using 10 instead of 12" in outcome.stderr


def test_records_of_transactions_can_be_left_out(cli: CommandLine, topic: str) -> None:
    with Producer(cli.bootstrap, transactional_id=topic) as producer:

        def abort() -> None:
            with producer.transaction():
                producer.send(topic, b"aborted", partition=0).result()
                raise KeyError

        with pytest.raises(KeyError):
            abort()
        with producer.transaction():
            producer.send(topic, b"committed", partition=0)
    words = ("consume", topic, "--until", "end", "--isolation-level")
    assert cli.ok(*words, "read_committed") == "committed\n"
    assert cli.ok(*words, "read_uncommitted") == "aborted\ncommitted\n"


def test_without_until_it_goes_on(cli: CommandLine, by_minute: str) -> None:
    process = cli.start("consume", by_minute, "--partition", "0", "--from", "8")
    assert [line_of(process), line_of(process)] == [b"0-8\n", b"0-9\n"]
    cli.ok("produce", by_minute, "--partition", "0", stdin="new\n")
    assert line_of(process) == b"new\n"
    process.send_signal(signal.SIGINT)
    assert cli.finish(process).exit_code == 130


def test_a_signal_ends_it(cli: CommandLine, topic: str) -> None:
    cli.ok("produce", topic, "--partition", "0", stdin=lines_of(range(200_000)))
    process = cli.start("consume", topic, "--until", "end")
    assert line_of(process) == b"0\n"  # the pipe is full soon
    process.send_signal(signal.SIGTERM)
    look_until(lambda: process.poll() is not None, "the end of the command")
    assert cli.finish(process).exit_code == 143


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "yesterday"], "'yesterday' is no offset"),
        (["--from", "1", "--from-beginning"], "--from and --from-beginning exclude each other"),
        (["--until", "end", "--group", "g"], "--from and --until exclude --group and --share"),
        (["--from", "1", "--share", "g"], "--from and --until exclude --group and --share"),
    ],
)
def test_a_wrong_place_has_a_reason(
    cli: CommandLine, topic: str, words: list[str], said: str
) -> None:
    outcome = cli.run("consume", topic, *words)
    assert outcome.exit_code == 2
    assert said in " ".join(outcome.stderr.split())
