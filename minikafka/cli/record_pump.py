"""Moves records from a consumer to stdout, and commits those that are written."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

import trio

from minikafka_client import Consumer, ConsumerRecord, KafkaError, TopicPartition

from .output import note
from .record_format import RecordFormat
from .stdout_stream import StdoutStream

_RECORDS_PER_WRITE_MAX: Final = 1_000
_COMMIT_INTERVAL_S: Final = 1.0


class RecordPump:
    """One run of ``consume``.

    Args:
        render: a record's bytes.
        max_records: stop after so many, None for never.
        timeout_s: stop when none has come for so long, None for never.
        commits: whether the consumer is in a group.

    Attributes:
        consumer: to be set before `run`.
        printed: records written to stdout.
        reader_is_gone: nobody reads our stdout any more.
    """

    consumer: Consumer

    def __init__(
        self,
        render: RecordFormat,
        *,
        max_records: int | None,
        timeout_s: float | None,
        commits: bool,
    ) -> None:
        self.printed = 0
        self.reader_is_gone = False
        self._render = render
        self._max_records = max_records
        self._timeout_s = inf if timeout_s is None else timeout_s
        self._commits = commits
        self._stdout = StdoutStream()
        self._written: dict[TopicPartition, int] = {}
        self._next_commit = 0.0

    async def run(self) -> None:
        """Print until a limit is reached or the reader leaves.

        Raises:
            KafkaError: the consumer cannot go on.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_reader, nursery.cancel_scope)
            try:
                await self._print_records()
            except BrokenPipeError:
                self.reader_is_gone = True
            nursery.cancel_scope.cancel()

    async def _watch_reader(self, running: trio.CancelScope) -> None:
        await self._stdout.reader_left()
        self.reader_is_gone = True
        running.cancel()

    async def _print_records(self) -> None:
        idle_from = trio.current_time()
        while self._max_records is None or self.printed < self._max_records:
            most = _RECORDS_PER_WRITE_MAX
            if self._max_records is not None:
                most = min(most, self._max_records - self.printed)
            records = await self.consumer.poll(most, self._patience_ms(idle_from))
            if records:
                await self._print(records)
                idle_from = trio.current_time()
                continue
            await self.commit()
            if trio.current_time() - idle_from >= self._timeout_s:
                return

    def _patience_ms(self, idle_from: float) -> float | None:
        """How long the next poll may wait; what is written is to be committed soon."""
        patience_s = max(0.0, idle_from + self._timeout_s - trio.current_time())
        if self._written:
            patience_s = min(patience_s, _COMMIT_INTERVAL_S)
        return None if patience_s == inf else patience_s * 1000

    async def _print(self, records: Sequence[ConsumerRecord]) -> None:
        await self._stdout.write(b"".join(map(self._render, records)))
        self.printed += len(records)
        if self._commits:
            for record in records:
                self._written[TopicPartition(record.topic, record.partition)] = record.offset + 1
            if trio.current_time() >= self._next_commit:
                await self.commit()

    async def commit(self) -> None:
        """Commit what is written and not yet committed; a failure is only worth a note.

        Records whose commit failed are printed again by whoever reads on: at least once.
        """
        written = dict(self._written)
        if not written:
            return
        try:
            await self.consumer.commit(written)
        except KafkaError as error:
            note(f"the offsets of the last records were not committed: {error}")
        # Cancelled, we do not come here, and what may not be committed is committed at the end.
        for partition, offset in written.items():
            if self._written.get(partition) == offset:
                del self._written[partition]
        self._next_commit = trio.current_time() + _COMMIT_INTERVAL_S

    async def commit_before_rebalance(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit while the partitions are still ours."""
        del partitions
        await self.commit()
