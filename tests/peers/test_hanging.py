"""Hanging transactions: Apache Kafka allows them if it does not verify transactions."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from minikafka.cli.main import main
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import init_producer_id, produce
from minikafka.protocol.records import encode_batch
from minikafka_client import LATEST, IsolationLevel, TopicPartition
from minikafka_client.sync import AdminClient, Producer
from tests.kit.waiting import work_until
from tests.kit.wire import Wire, produce_request
from tests.peers.apache_kafka import OwnApacheKafka

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

UNVERIFIED = {"transaction.partition.verification.enable": "false"}
VERSION_WITHOUT_ADDING = 9  # of Produce: from 12 on the broker adds partitions itself


@pytest.fixture
def node(jars: Path, tmp_path: Path) -> Generator[OwnApacheKafka]:
    """A broker that does not verify transactions."""
    with OwnApacheKafka(tmp_path / "node", UNVERIFIED) as careless:
        yield careless


def leave_hanging(wire: Wire, topic: str, partition: int, transactional_id: str) -> int:
    """Write into a transaction that its coordinator has never heard of; the producer id."""
    granted = None
    begin = init_producer_id.Request(
        transactional_id=transactional_id, transaction_timeout_ms=60_000
    )

    def is_granted() -> bool:
        nonlocal granted
        granted = wire.ask(begin, 4, init_producer_id.Response)
        return granted.error_code == ErrorCode.NONE

    work_until(is_granted, what="a producer id")
    assert granted is not None
    batch = encode_batch(
        [(None, b"left behind", (), 1_000)],
        producer_id=granted.producer_id,
        producer_epoch=granted.producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )
    request = produce_request(topic, bytes(batch), partition=partition, acks=-1)
    request.transactional_id = transactional_id

    def is_appended() -> bool:
        """A topic that was just created may not have its leader yet; nothing is appended then."""
        answer = wire.ask(request, VERSION_WITHOUT_ADDING, produce.Response)
        code = answer.responses[0].partition_responses[0].error_code
        assert code in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return code == ErrorCode.NONE

    work_until(is_appended, what="an open transaction")
    return granted.producer_id


def test_they_are_found_and_aborted(node: OwnApacheKafka, name: str) -> None:
    bootstrap = node.bootstrap
    runner = CliRunner(env={"MINIKAFKA_BOOTSTRAP": bootstrap})

    def run(*words: str, exit_code: int = 0) -> Any:
        result = runner.invoke(main, ["transaction", *words, "--json"])
        assert result.exit_code == exit_code, result.output
        return result.stderr if exit_code else json.loads(result.stdout)

    where = [TopicPartition(name, 0), TopicPartition(name, 1)]

    def stable_offsets() -> list[int]:
        ends = admin.list_offsets(
            dict.fromkeys(where, LATEST), isolation_level=IsolationLevel.READ_COMMITTED
        )
        return [ends[one].offset for one in where]

    with (
        AdminClient(bootstrap) as admin,
        Wire(bootstrap) as wire,
        Producer(bootstrap, transactional_id="alive") as producer,
    ):
        wire.create_topic(name, 2, {})
        with producer.transaction():
            # One begins after the other in partition 0, and alone in partition 1.
            producer_id = leave_hanging(wire, name, 0, "hangs")
            for one in where:
                producer.send(name, b"alive", partition=one.partition)
            producer.flush()
            assert run("find-hanging") == {
                "hanging": [
                    {
                        "topic": name,
                        "partition": 0,
                        "producer_id": producer_id,
                        "producer_epoch": 0,
                        "last_sequence": 0,
                        "last_timestamp_ms": 1_000,
                        "coordinator_epoch": -1,
                        "transaction_start_offset": 0,
                        "transactional_id": "hangs",
                    }
                ]
            }
            everything = run("find-hanging", "--silent-for", "0", "--topic", name)
            assert [one["transactional_id"] for one in everything["hanging"]] == ["hangs"]
            for place in (("0", "1"), ("1", "0")):
                line = run("abort-hanging", name, *place, "--silent-for", "0", exit_code=1)
                assert "no hanging transaction starts at offset" in line
            assert stable_offsets() == [0, 0]
            aborted = run("abort-hanging", name, "0", "0")["aborted"]
            assert aborted["producer_id"] == producer_id
            assert stable_offsets() == [1, 0]
        work_until(lambda: stable_offsets() == [4, 2], what="the end of what was alive")
        assert run("find-hanging", "--silent-for", "0") == {"hanging": []}
