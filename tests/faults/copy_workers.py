"""Processes that copy a topic into another one in transactions, to be killed at any point.

    python -m tests.faults.copy_workers KIND BOOTSTRAP NUMBER

KIND is one of `WORKERS`; NUMBER makes the group's static member and the transactional id.
"""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

import confluent_kafka
import trio

from minikafka_client.patterns import ConsumeTransformProduce

INPUT: Final = "copied"
OUTPUT: Final = "copy"
GROUP: Final = "copiers"
RECORDS_PER_TRANSACTION: Final = 500

_SESSION_TIMEOUT_MS = 3_000
_HEARTBEAT_INTERVAL_MS = 500
_TRANSACTION_TIMEOUT_MS = 5_000
_PATIENCE_MS = 3_000
_PATIENCE_S = 30.0
_POLL_S = 0.5
_HANG_S = 20.0


def transactional_id_of(number: int) -> str:
    return f"copier-{number}"


def copy_with_ours(bootstrap: str, number: int) -> None:
    """`ConsumeTransformProduce`, as its documentation shows it."""
    trio.run(_copy_with_ours, bootstrap, number)


async def _copy_with_ours(bootstrap: str, number: int) -> None:
    async with ConsumeTransformProduce(
        bootstrap,
        [INPUT],
        group_id=GROUP,
        group_instance_id=f"worker-{number}",
        session_timeout_ms=_SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=_HEARTBEAT_INTERVAL_MS,
        transactional_id=transactional_id_of(number),
        max_records=RECORDS_PER_TRANSACTION,
        socket_connection_setup_timeout_ms=_PATIENCE_MS,
        request_timeout_ms=_PATIENCE_MS,
        producer_options={"transaction_timeout_ms": _TRANSACTION_TIMEOUT_MS},
    ) as source:
        async for batch in source:
            for record in batch:
                await batch.send(OUTPUT, record.value, partition=record.partition)


def copy_with_confluent(bootstrap: str, number: int) -> None:
    """The loop that librdkafka's documentation describes."""
    _ConfluentCopier(bootstrap, number).run()


class _ConfluentCopier:
    """What is read before a rebalance is dropped: another worker may own it by now.

    So is what does not begin where the group stands. A worker that was stopped while it looked for
    the beginning of a partition looks again half a second later (ListOffsets), and then reads from
    there, although the group had an offset by then, it was told so (OffsetFetch), and has sought
    there: in 4 of 45 runs on a busy machine.
    """

    def __init__(self, bootstrap: str, number: int) -> None:
        shared = {
            "bootstrap.servers": bootstrap,
            "socket.timeout.ms": _PATIENCE_MS,
            "socket.connection.setup.timeout.ms": _PATIENCE_MS,
        }
        self._consumer: Any = confluent_kafka.Consumer(
            {
                **shared,
                "group.id": GROUP,
                "group.instance.id": f"worker-{number}",
                "session.timeout.ms": _SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": _HEARTBEAT_INTERVAL_MS,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._producer: Any = confluent_kafka.Producer(
            {
                **shared,
                "transactional.id": transactional_id_of(number),
                "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                "linger.ms": 5,
            }
        )
        self._was_rebalanced = False
        self._next: dict[int, int] = {}  # by partition, where the group stands

    def run(self) -> None:
        """Copy forever; a fatal error ends the process."""
        self._producer.init_transactions(_PATIENCE_S)
        self._consumer.subscribe(
            [INPUT], on_assign=self._on_rebalance, on_revoke=self._on_rebalance
        )
        while True:
            self._was_rebalanced = False
            messages = [
                message
                for message in self._consumer.consume(RECORDS_PER_TRANSACTION, _POLL_S)
                if message.error() is None
            ]
            if messages and (self._was_rebalanced or not self._are_next(messages)):
                self._go_back()
            elif messages:
                self._copy(messages)

    def _on_rebalance(self, _consumer: Any, _partitions: Any) -> None:
        self._was_rebalanced = True
        self._next.clear()

    def _are_next(self, messages: list[Any]) -> bool:
        """Whether the messages are known to follow what the group has processed."""
        first: dict[int, int] = {}
        for message in messages:
            first.setdefault(message.partition(), message.offset())
        wrong = {p: at for p, at in first.items() if p in self._next and at != self._next[p]}
        if wrong:
            sys.stderr.write(f"read from {wrong}, and the group stands at {self._next}\n")
        return not wrong and first.keys() <= self._next.keys()

    def _copy(self, messages: list[Any]) -> None:
        ends = {message.partition(): message.offset() + 1 for message in messages}
        offsets = [confluent_kafka.TopicPartition(INPUT, *end) for end in ends.items()]
        try:
            self._producer.begin_transaction()
            for message in messages:
                self._producer.produce(OUTPUT, message.value(), partition=message.partition())
            group: Any = self._consumer.consumer_group_metadata()
            with _or_else_exit():
                self._producer.send_offsets_to_transaction(offsets, group, _PATIENCE_S)
            self._until_done(self._producer.commit_transaction)
            self._next |= ends
        except confluent_kafka.KafkaException as failure:
            sys.stderr.write(f"{failure}\n")
            if failure.args[0].fatal():
                raise
            self._until_done(self._producer.abort_transaction)
            self._go_back()

    def _until_done(self, end: Callable[[float], None]) -> None:
        """Retry what can be retried."""
        while True:
            try:
                end(_PATIENCE_S)
            except confluent_kafka.KafkaException as failure:
                if not failure.args[0].retriable():
                    raise
            else:
                return

    def _go_back(self) -> None:
        """Resume at the group's offsets."""
        for partition in self._consumer.committed(self._consumer.assignment(), _PATIENCE_S):
            partition.offset = max(partition.offset, 0)
            self._next[partition.partition] = partition.offset
            self._consumer.seek(partition)


@contextmanager
def _or_else_exit() -> Generator[None]:
    """End the process when a call has hung for long.

    librdkafka forgets a broker that Metadata no longer names, but waits for it without an
    end where it was the group's coordinator, whatever timeout it was given (issues 5456 and 5511).
    """
    faulthandler.dump_traceback_later(_HANG_S, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


WORKERS: Final[dict[str, Callable[[str, int], None]]] = {
    "confluent": copy_with_confluent,
    "ours": copy_with_ours,
}


def main() -> None:
    kind, bootstrap, number = sys.argv[1:]
    WORKERS[kind](bootstrap, int(number))


if __name__ == "__main__":
    main()
