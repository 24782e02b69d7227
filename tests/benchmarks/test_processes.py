"""Processes under measurement: the ready line, and peers that a client takes for a broker."""

import struct
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.processes import ProcessFailedError, ServerProcess, peer, run_load
from benchmarks.raw_client import (
    RawClient,
    api_versions_request,
    metadata_request,
    produce_request,
    record_batch,
)
from minikafka.protocol.records import crc_is_valid, decode_records, iter_batches

VALUE = b"x" * 100


def test_a_server_that_ends_before_it_is_ready_is_reported_with_its_stderr(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailedError, match="no such luck"):
        ServerProcess(["-c", "raise SystemExit('no such luck')"], tmp_path / "stderr")


def test_a_server_that_prints_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailedError, match="not `ready: HOST:PORT`"):
        ServerProcess(["-c", "print('hello', flush=True); input()"], tmp_path / "stderr")


def test_a_load_that_fails_is_reported_with_its_stderr() -> None:
    with pytest.raises(ProcessFailedError, match="unexpected keyword argument"):
        run_load("consume", {"coffee": 1})


def test_the_echo_server_sends_back_what_it_gets(tmp_path: Path) -> None:
    with (
        peer("echo", tmp_path) as server,
        closing(RawClient(server.host, server.port)) as client,
    ):
        request = produce_request("topic", 0, VALUE)
        assert client.ask(request) == request[4:]
        latencies = client.latencies_seconds(request, len(request), 20)
        assert len(latencies) == 20
        assert min(latencies) > 0
        assert server.resident_bytes() > 0


def test_the_sink_answers_like_a_broker_of_four_partitions(tmp_path: Path) -> None:
    with (
        peer("sink", tmp_path) as server,
        closing(RawClient(server.host, server.port)) as client,
    ):
        unsupported = client.ask(api_versions_request())
        assert struct.unpack_from(">ih", unsupported) == (1, 35)
        assert client.produce_error(produce_request("topic", 3, VALUE), "topic") == 0
        assert struct.pack(">h", 5) + b"topic" in client.ask(metadata_request("topic"))


@pytest.mark.parametrize("size_bytes", [1, 50, 57, 58, 63, 64, 100, 7000])
def test_the_raw_clients_batch_is_one_record_as_the_broker_reads_it(size_bytes: int) -> None:
    batch = record_batch(b"x" * size_bytes)
    ((position, header),) = iter_batches(batch)
    assert crc_is_valid(batch, position, header)
    (record,) = decode_records(batch)
    assert (record.key, record.value, list(record.headers)) == (None, b"x" * size_bytes, [])
