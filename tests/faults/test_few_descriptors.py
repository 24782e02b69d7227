"""``ulimit -n`` far below what partitions and clients need: some must wait, nothing breaks."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

from minikafka.protocol.errors import ErrorCode
from tests.kit.live import JudgedBroker
from tests.kit.wire import Wire, one_batch, records_of

LIMIT = 200
PARTITIONS = 250
CLIENTS = 150


def test_nothing_goes_offline_with_few_descriptors(tmp_path: Path) -> None:
    dice = random.Random(1)
    settings = {"log.segment.bytes": "2000", "log.index.interval.bytes": "1"}
    prefix = ("sh", "-c", f'ulimit -n {LIMIT}; exec "$@"', "sh")
    with JudgedBroker(tmp_path, settings, prefix=prefix) as broker, ExitStack() as stack:
        first = stack.enter_context(Wire(broker.bootstrap))
        first.create_topic("t", PARTITIONS, {})
        links = [first]
        links += [stack.enter_context(Wire(broker.bootstrap)) for _ in range(CLIENTS)]
        written: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        refused = 0
        for number in range(1500):
            partition = dice.randrange(PARTITIONS)
            link = dice.choice(links)
            value = b"%d %s" % (number, b"v" * 500)
            try:
                answer = link.produce("t", partition, one_batch(value))
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
                found += [record.value for record in records_of(answer_to_fetch)]
            assert found == values
        assert "offline" not in broker.log()
        assert broker.stop() == 0
