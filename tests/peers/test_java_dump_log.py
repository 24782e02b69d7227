"""Apache Kafka's kafka-dump-log reads every kind of file in a partition's directory."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from minikafka_client import TopicPartition
from minikafka_client.sync import Producer
from tests.kit.live import JudgedBroker
from tests.kit.streams_member import join_streams_group
from tests.kit.wire import Wire
from tests.peers.java_runtime import java_command

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

DUMP = "org.apache.kafka.tools.DumpLogSegments"
TOPIC, GROUP = "dumped", "readers"
TRANSACTION_LOG, OFFSETS = "--transaction-log-decoder", "--offsets-decoder"
TRANSACTIONS = 36
SETTINGS = {"segment.bytes": "60000", "index.interval.bytes": "1000"}


class _AbortedError(Exception):
    """Ends a transaction."""


def write_transactions(bootstrap: str) -> None:
    """A record, and transactions of a batch of 6 KB and an offset; every third one is aborted."""
    with Producer(bootstrap) as producer:
        producer.send(TOPIC, b"first", partition=0).result()
    with Producer(bootstrap, transactional_id=TOPIC) as producer:
        for number in range(TRANSACTIONS):
            with suppress(_AbortedError), producer.transaction() as transaction:
                producer.send(TOPIC, b"%6d" % number * 1000, partition=0).result()
                transaction.send_offsets({TopicPartition(TOPIC, 0): number}, GROUP)
                if number % 3 == 0:
                    raise _AbortedError


@pytest.fixture(scope="module", params=["stopped", "running"])
def data_dir(
    request: pytest.FixtureRequest, jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Path]:
    """A data directory that was left cleanly, and one that is in use."""
    with JudgedBroker(tmp_path_factory.mktemp("dumped")) as broker:
        with Wire(broker.bootstrap) as wire:
            wire.create_topic(TOPIC, 1, SETTINGS)
            join_streams_group(wire, "streams", TOPIC)
        write_transactions(broker.bootstrap)
        if request.param == "stopped":
            broker.stop()
        yield broker.data_dir


def dump(paths: list[Path], *options: str) -> str:
    """What the tool says of some files; what it complains of fails the test."""
    finished = subprocess.run(
        java_command(DUMP, *options, "--files", ",".join(map(str, paths)), log_level="warn"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (finished.returncode, finished.stderr) == (0, ""), finished.stdout[-2000:]
    return finished.stdout


KINDS = {
    "log": r"baseOffset: \d+ lastOffset: \d+",
    "index": r"offset: \d+ position: \d+",
    "timeindex": r"timestamp: \d+ offset: \d+",
    "txnindex": r"version: 0 producerId: \d+ firstOffset: \d+ lastOffset: \d+ lastStableOffset",
    "snapshot": r"producerId: \d+ .* coordinatorEpoch: -1 .* lastSequence: 0 lastOffset: 0",
}


def files_of(data_dir: Path, suffix: str) -> list[Path]:
    return sorted((data_dir / f"{TOPIC}-0").glob(f"*.{suffix}"))


@pytest.fixture(scope="module")
def dumped(data_dir: Path) -> dict[str, str]:
    """What the tool shows of each file, by path."""
    shown = dump([path for suffix in KINDS for path in files_of(data_dir, suffix)])
    sections = [each.partition("\n") for each in shown.split("Dumping ")[1:]]
    return {path: section for path, _, section in sections}


@pytest.mark.parametrize("suffix", KINDS)
def test_every_kind_of_file_is_read(data_dir: Path, dumped: dict[str, str], suffix: str) -> None:
    paths = files_of(data_dir, suffix)
    assert len(paths) > 2
    counts = [len(re.findall(KINDS[suffix], dumped[str(path)])) for path in paths]
    assert all(counts[:-1])
    if suffix == "txnindex":
        assert sum(counts) == TRANSACTIONS // 3


@pytest.mark.parametrize("option", ["--index-sanity-check", "--verify-index-only"])
def test_indexes_are_verified(data_dir: Path, option: str) -> None:
    paths = files_of(data_dir, "index") + files_of(data_dir, "timeindex")
    shown = dump(paths, option)
    if option == "--index-sanity-check":
        assert shown.count("passed sanity check") == len(paths)


# PREPARE_COMMIT: stored before a commit is answered; the end of the last one may not be yet.
COMMITTED = (
    rf'"transactionalId":"{TOPIC}".*"previousProducerId":\d+.*"transactionStatus":2'
    r'.*"clientTransactionVersion":2'
)
OFFSET = rf'"group":"{GROUP}".*"version":"?4"?.*"offset":\d+'
STREAMS_GROUP = {
    17: '"validatedTopologyEpoch":0,"lastAssignmentConfigs":[{"key":"num.standby.replicas"',
    19: '"processId":"p"',
    20: '"assignmentEpoch":1,"assignmentTimestamp":',
    21: '"activeTasks":[{"subtopologyId":"0","partitions":[0]}]',
    22: '"activeTasks":[{"subtopologyId":"0","partitions":[0],"assignmentEpochs":[1]}]',
    23: f'"sourceTopics":["{TOPIC}"]',
}
"""By the type of the record: a part of what the tool says of it."""


@pytest.mark.parametrize(
    ("topic", "decoder", "line"),
    [
        ("__transaction_state", TRANSACTION_LOG, COMMITTED),
        ("__consumer_offsets", OFFSETS, OFFSET),
    ],
)
def test_records_of_coordinators_are_decoded(
    data_dir: Path, topic: str, decoder: str, line: str
) -> None:
    paths = [path for path in data_dir.glob(f"{topic}-*/*.log") if path.stat().st_size]
    shown = dump(paths, decoder)
    assert len(re.findall(line, shown)) >= TRANSACTIONS * 2 // 3, shown[-3000:]
    for kind, part in STREAMS_GROUP.items() if decoder == OFFSETS else ():
        (record,) = re.findall(rf'"type":"{kind}".*', shown)
        assert part in record
