"""Clients that read with read_committed, as consumers do."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, cast

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import fetch
from minikafka.protocol.records import (
    ControlType,
    decode_control_type,
    decode_records,
    iter_batches,
)
from minikafka.testing.history.recording import Recorder
from minikafka.testing.simulation.network import HOST, Network, Note
from tests.kit.wire import fetch_request
from tests.simulation.brokers.clients import Client, NoAnswerError

OUTPUT: Final = "o"
"""The topic that transactions write to."""


class CommittedReading(Client):
    async def read(
        self, node_id: int, topic: str, partition: int, offset: int
    ) -> tuple[ErrorCode, list[tuple[int, bytes]], int]:
        """Offsets and values from an offset on, and where to go on."""
        request = fetch_request(topic, offset, partition=partition, max_wait_ms=300, max_bytes=600)
        request.isolation_level = 1
        answer = await self.ask(node_id, request, 11, fetch.Response)
        one = answer.responses[0].partitions[0]
        if one.error_code != ErrorCode.NONE:
            return ErrorCode(one.error_code), [], offset
        return ErrorCode.NONE, *committed_records(one, offset)


def committed_records(one: fetch.PartitionData, offset: int) -> tuple[list[tuple[int, bytes]], int]:
    """What a consumer makes of a fetched partition: no aborted records, no markers."""
    found: list[tuple[int, bytes]] = []
    if not one.records:
        return found, offset
    content = cast("memoryview[int]", one.records)
    pending = sorted(one.aborted_transactions or (), key=lambda each: -each.first_offset)
    aborted: set[int] = set()
    for position, header in iter_batches(content):
        while pending and pending[-1].first_offset <= header.last_offset:
            aborted.add(pending.pop().producer_id)
        records = decode_records(content, position)
        if header.is_control:
            if decode_control_type(records[0].key)[1] == ControlType.ABORT:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            found += [(each.offset, each.value or b"") for each in records if each.offset >= offset]
        offset = max(offset, header.last_offset + 1)
    return found, offset


class CommittedReader(CommittedReading):
    """Reads one partition of the output with read_committed, again and again, into the history."""

    def __init__(
        self,
        name: str,
        partition: int,
        seed: int,
        network: Network,
        note: Note,
        nodes: int,
        recorder: Recorder,
    ) -> None:
        super().__init__(name, seed, network, note, nodes)
        self.partition = partition
        self.position = 0
        self.values: list[bytes] = []
        self._recorder = recorder

    async def run(self) -> None:
        HOST.set(self.host)
        leader = self.any_node()
        while not self.is_done:
            try:
                code, found, self.position = await self.read(
                    leader, OUTPUT, self.partition, self.position
                )
                if found:
                    self._recorder.poll(self.host, {(OUTPUT, self.partition): found})
                    self.values += [value for _, value in found]
                if code is not ErrorCode.NONE:
                    await self.back_off()
                    leader = await self.leader(self.partition, OUTPUT)
            except NoAnswerError:
                await self.back_off()
                with suppress(NoAnswerError):
                    leader = await self.leader(self.partition, OUTPUT)
