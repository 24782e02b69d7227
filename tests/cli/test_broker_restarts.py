"""Commands that are running while the broker dies and is restarted."""

import signal
from pathlib import Path

from minikafka import testing
from tests.cli.conftest import CommandLine, line_of, lines_of, send
from tests.kit.waiting import look_until


def test_produce_continues_and_counts_every_record_once(tmp_path: Path) -> None:
    with testing.broker(directory=tmp_path) as broker:
        cli = CommandLine(broker.bootstrap)
        cli.ok("topic", "create", "events", "--partitions", "1")
        process = cli.start("produce", "events")
        send(process, lines_of(range(1000)).encode())
        look_until(lambda: cli.end_offset("events") > 0, "a record in the log")
        broker.kill()
        send(process, lines_of(range(1000, 2000)).encode())
        broker.start()
        outcome = cli.finish(process)
        assert outcome.exit_code == 0, outcome.stderr
        assert "2000 records acknowledged (acks=all)" in outcome.stderr.splitlines()[-1]
        words = ["consume", "events", "--from-beginning", "--max-records", "2000"]
        assert cli.ok(*words) == lines_of(range(2000))
        assert cli.end_offset("events") == 2000


def test_consume_continues_after_the_last_record_it_printed(tmp_path: Path) -> None:
    with testing.broker(directory=tmp_path) as broker:
        cli = CommandLine(broker.bootstrap)
        cli.ok("topic", "create", "events", "--partitions", "1")
        cli.ok("produce", "events", stdin=lines_of(range(10)))
        process = cli.start_consume("events", "--group", "readers")
        printed = [line_of(process) for _ in range(10)]
        broker.kill()
        broker.start()
        cli.ok("produce", "events", stdin=lines_of(range(10, 20)))
        printed += [line_of(process) for _ in range(10)]
        process.send_signal(signal.SIGINT)
        outcome = cli.finish(process)
    assert outcome.exit_code == 130
    assert b"".join(printed).decode() == lines_of(range(20))
    assert outcome.stdout == b""
