"""``ulimit -n`` far below what partitions and clients want: some wait outside, nothing breaks."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import encode_batch
from tests.faults.link import Link, records_in
from tests.interop.brokers import InteropBroker

LIMIT = 200
PARTITIONS = 250
CLIENTS = 150


def test_nothing_goes_offline_when_files_are_few(tmp_path: Path) -> None:
    dice = random.Random(1)
    settings = {"log.segment.bytes": "2000", "log.index.interval.bytes": "1"}
    launcher = ("sh", "-c", f'ulimit -n {LIMIT}; exec "$@"', "sh")
    with InteropBroker(tmp_path, settings, launcher=launcher) as broker, ExitStack() as stack:
        first = stack.enter_context(Link(broker.host_and_port))
        first.create_topic("t", PARTITIONS, {})
        links = [first]
        links += [stack.enter_context(Link(broker.host_and_port)) for _ in range(CLIENTS)]
        written: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        refused = 0
        for number in range(1500):
            partition = dice.randrange(PARTITIONS)
            link = dice.choice(links)
            value = b"%d %s" % (number, b"v" * 500)
            try:
                answer = link.produce("t", partition, bytes(encode_batch([(b"k", value, (), 1)])))
            except OSError:  # one connection too many
                assert link is not first
                links.remove(link)
                refused += 1
                continue
            assert answer.error_code == ErrorCode.NONE, answer
            written[partition].append(value)
        assert 0 < refused < CLIENTS
        for partition, values in written.items():
            found: list[bytes | None] = []
            while len(found) < len(values):
                answer_to_fetch = first.fetch("t", partition, len(found))
                assert answer_to_fetch.error_code == ErrorCode.NONE
                found += [record.value for record in records_in(answer_to_fetch)]
            assert found == values
        assert "offline" not in broker.log
        assert broker.stop() == 0
