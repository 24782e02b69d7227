"""Processes under measurement: loads, and peers that a client takes for a broker."""

import struct
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.processes import ProcessFailedError, cpu_seconds, peer, resident_bytes, run_load
from benchmarks.raw_client import (
    RawClient,
    api_versions_request,
    metadata_request,
    produce_request,
)

VALUE = b"x" * 100


def test_a_load_that_fails_is_reported_with_its_stderr() -> None:
    with pytest.raises(ProcessFailedError, match="unexpected keyword argument"):
        run_load("consume", {"coffee": 1})


def test_the_echo_server_sends_back_what_it_gets(tmp_path: Path) -> None:
    with peer("echo", tmp_path) as server, closing(RawClient(server.address)) as client:
        request = produce_request("topic", 0, VALUE)
        assert client.ask(request) == request[4:]
        latencies = client.latencies_seconds(request, len(request), 20)
        assert len(latencies) == 20
        assert min(latencies) > 0
        assert resident_bytes(server.pid) > 0
        assert cpu_seconds(server.pid) > 0


def test_a_process_that_has_ended_has_no_memory_to_measure(tmp_path: Path) -> None:
    with peer("echo", tmp_path) as server:
        server.kill()
        with pytest.raises(ProcessFailedError, match="ended while it was measured"):
            resident_bytes(server.pid)


def test_the_sink_answers_like_a_broker_of_four_partitions(tmp_path: Path) -> None:
    with peer("sink", tmp_path) as server, closing(RawClient(server.address)) as client:
        unsupported = client.ask(api_versions_request())
        assert struct.unpack_from(">ih", unsupported) == (1, 35)
        assert client.produce_error(produce_request("topic", 3, VALUE)) == 0
        assert struct.pack(">h", 5) + b"topic" in client.ask(metadata_request("topic"))
