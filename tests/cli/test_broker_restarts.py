"""Commands that are running while the broker dies and comes back."""

import signal
from pathlib import Path

from tests.cli.conftest import CommandLine, lines_of, until
from tests.live_broker import LiveBroker


def test_produce_goes_on_and_counts_every_record_once(tmp_path: Path) -> None:
    with LiveBroker(tmp_path) as broker:
        cli = CommandLine(broker.bootstrap)
        cli.ok("topic", "create", "events", "--partitions", "1")
        process = cli.start("produce", "events")
        assert process.stdin is not None
        process.stdin.write(lines_of(range(1000)).encode())
        process.stdin.flush()
        until(lambda: cli.end_offset("events") > 0, "a record in the log")
        broker.kill()
        process.stdin.write(lines_of(range(1000, 2000)).encode())
        process.stdin.flush()
        broker.start()
        outcome = cli.finish(process)
        assert outcome.exit_code == 0, outcome.stderr
        assert "2000 records acknowledged (acks=all)" in outcome.stderr.splitlines()[-1]
        words = ["consume", "events", "--from-beginning", "--max-records", "2000"]
        assert cli.ok(*words) == lines_of(range(2000))
        assert cli.end_offset("events") == 2000


def test_consume_goes_on_behind_what_it_has_printed(tmp_path: Path) -> None:
    with LiveBroker(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as broker:
        cli = CommandLine(broker.bootstrap)
        cli.ok("topic", "create", "events", "--partitions", "1")
        cli.ok("produce", "events", stdin=lines_of(range(10)))
        process = cli.start("consume", "events", "--group", "readers", "--from-beginning")
        assert process.stdout is not None
        printed = [process.stdout.readline() for _ in range(10)]
        broker.kill()
        broker.start()
        cli.ok("produce", "events", stdin=lines_of(range(10, 20)))
        printed += [process.stdout.readline() for _ in range(10)]
        process.send_signal(signal.SIGINT)
        outcome = cli.finish(process)
    assert outcome.exit_code == 130
    assert b"".join(printed).decode() == lines_of(range(20))
    assert outcome.stdout == b""
