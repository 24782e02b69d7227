"""A shop that ships orders and writes invoices: a small application to be simulated.

Orders are produced until they are stored, shipped at least once or exactly once, and copied to
invoices in transactions. Each part has a bug that can be switched on; all of them are in real
programs, and none shows while nothing goes wrong. `tests/examples/test_simulated_shop.py` has the
simulator find them.
"""

from __future__ import annotations

from contextlib import suppress

import trio

from minikafka.testing.simulation import Cluster
from minikafka_client import (
    CommitFailedError,
    Consumer,
    ConsumerRecord,
    KafkaError,
    Producer,
    TopicPartition,
)

ORDERS = 40


class OrderBook:
    """What the web shop has in its own database: it survives the processes that use it."""

    def __init__(self) -> None:
        self.next_order = 0


async def take_orders(cluster: Cluster, book: OrderBook, ignores_failures: bool = False) -> None:
    """Produce every order of the book, one after the other."""
    async with Producer(
        cluster.bootstrap, acks="all", delivery_timeout_ms=2_000, request_timeout_ms=1_000
    ) as producer:
        while book.next_order < ORDERS:
            order = b"order %d" % book.next_order
            try:
                await producer.send_and_wait("orders", order, key=b"%d" % book.next_order)
            except KafkaError:
                if not ignores_failures:
                    continue  # try again: it may be stored twice, but it is not lost
            book.next_order += 1
            await trio.sleep(0.1)


# --- shipping, at least once ---------------------------------------------------------------------


def shipping_consumer(cluster: Cluster) -> Consumer:
    return Consumer(
        cluster.bootstrap,
        group_id="shipping",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=1_500,
    )


async def ship(cluster: Cluster, commits_first: bool = False) -> None:
    """Ship every order, and commit when it is shipped."""
    async with shipping_consumer(cluster) as consumer:
        await consumer.subscribe(["orders"])
        async for record in consumer:
            if commits_first:
                await consumer.commit()
            await trio.sleep(0.1)  # the parcel service takes its time
            cluster.processed(record)
            if not commits_first:
                with suppress(CommitFailedError):  # another member has it, and will ship it again
                    await consumer.commit()


# --- shipping, exactly once: the store keeps the offset with what it stores -----------------------


class Store:
    """A database with a table of parcels, in which (partition, offset) is unique."""

    def __init__(self) -> None:
        self.next_offset: dict[int, int] = {}

    def has(self, record: ConsumerRecord) -> bool:
        """Look whether a record was shipped before."""
        return record.offset < self.next_offset.get(record.partition, 0)

    def add(self, record: ConsumerRecord) -> None:
        """Store the parcel, with its offset."""
        self.next_offset[record.partition] = record.offset + 1


async def ship_once(cluster: Cluster, store: Store, checks_early: bool = False) -> None:
    """Ship every order exactly once, whatever the group thinks."""
    async with shipping_consumer(cluster) as consumer:
        await consumer.subscribe(["orders"])
        async for record in consumer:
            is_known = store.has(record)
            await trio.sleep(0.1)  # much may happen here
            if not checks_early:
                is_known = store.has(record)  # in one transaction of the database with `add`
            if not is_known:
                store.add(record)
                cluster.processed(record)
            with suppress(CommitFailedError):
                await consumer.commit()


# --- invoices: consume, transform, produce, in transactions ---------------------------------------


async def write_invoices(cluster: Cluster) -> None:
    """Copy each order to an invoice, with the offset of the order in the same transaction."""
    async with (
        Consumer(
            cluster.bootstrap,
            group_id="invoices",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=1_500,
        ) as consumer,
        Producer(
            cluster.bootstrap, transactional_id="invoices", transaction_timeout_ms=10_000
        ) as producer,
    ):
        await consumer.subscribe(["orders"])
        while True:
            records = await consumer.poll(10, timeout_ms=500)
            if not records:
                continue
            offsets = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
            async with producer.transaction() as transaction:
                for one in records:
                    await producer.send("invoices", b"invoice for " + (one.value or b""), one.key)
                await transaction.send_offsets(offsets, consumer)
