"""What happens to positions when the log changes under a consumer, against our broker."""

from __future__ import annotations

import contextlib

import pytest
import trio

import minikafka_client as mk
from minikafka.testing import Broker
from tests.client.trio_api.topics import NewName, fill_topic, new_topic

ONE_BATCH = {"prefetch_size_bytes_max": 1, "max_partition_fetch_bytes": 1}
"""A broker always sends one batch; more is not fetched before it is taken."""


async def new_topic_of_batches(bootstrap: str, name: str, count: int) -> mk.TopicPartition:
    """Batches of five records each."""
    topic = await new_topic(bootstrap, name)
    async with mk.Producer(bootstrap) as producer:
        for _ in range(count):
            await producer.send_many(topic, [b"v"] * 5)
            await producer.flush()
    return mk.TopicPartition(topic, 0)


@pytest.mark.parametrize("way", ["records", "batches", "poll"])
async def test_after_what_was_fetched_reading_continues_where_the_log_begins_now(
    bootstrap: str, name: str, way: str
) -> None:
    where = await new_topic_of_batches(bootstrap, name, 4)
    offsets: list[int] = []
    async with (
        mk.AdminClient(bootstrap) as admin,
        mk.Consumer(bootstrap, auto_offset_reset="earliest", **ONE_BATCH) as consumer,  # type: ignore[arg-type]  # all by name
    ):
        await consumer.assign([where])
        with trio.fail_after(30):
            offsets += [record.offset for record in await consumer.poll(1)]
            while not consumer.statistics().prefetched_bytes:
                await consumer.end_offsets([where])  # until the second batch is here
            await admin.delete_records({where: 15})
            if way == "records":
                async for record in consumer:
                    offsets.append(record.offset)
                    if record.offset == 19:
                        break
            elif way == "batches":
                async for batch in consumer.batches():
                    offsets += batch.offsets
                    if batch.offsets[-1] == 19:
                        break
            else:
                while offsets[-1] != 19:
                    offsets += [record.offset for record in await consumer.poll(3)]
    assert offsets == [*range(10), *range(15, 20)]


async def test_a_truncation_is_reported_and_can_be_answered_by_a_seek(
    bootstrap: str, topic: str
) -> None:
    where = mk.TopicPartition(topic, 0)
    await fill_topic(bootstrap, topic, 0, 10)
    async with mk.Consumer(bootstrap, auto_offset_reset="none") as consumer:
        await consumer.assign([where])
        consumer.seek(where, 12, leader_epoch=0)
        with pytest.raises(mk.LogTruncationError) as caught:
            await consumer.poll()
        consumer.seek(where, caught.value.divergent_offset.offset - 1)
        assert [record.offset for record in await consumer.poll()] == [9]
        assert consumer.positions() == {where: mk.OffsetAndMetadata(10, "", 0)}


async def test_a_session_that_a_restart_ended_is_opened_again(
    own_broker: Broker, name: str
) -> None:
    topic = await new_topic(own_broker.bootstrap, name, 20)
    async with mk.Consumer(own_broker.bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([mk.TopicPartition(topic, index) for index in range(20)])
        for number in range(3):
            await fill_topic(own_broker.bootstrap, topic, 7 + number, 4)
            received: list[int] = []
            with trio.fail_after(60):
                while len(received) < 4:
                    received += [record.offset for record in await consumer.poll()]
            assert received == [0, 1, 2, 3]
            own_broker.kill()
            own_broker.start()


async def test_a_topic_that_can_never_be_read_is_reported(
    bootstrap: str, new_name: NewName
) -> None:
    async with mk.Consumer(bootstrap, group_id=new_name()) as consumer:
        await consumer.subscribe(["no topic has such a name"])
        for _ in range(2):
            with (
                pytest.raises(mk.BrokerError, match="INVALID_TOPIC_EXCEPTION"),
                trio.fail_after(30),
            ):
                await consumer.poll()
        topic = await new_topic(bootstrap, new_name())
        await fill_topic(bootstrap, topic, 0, 3)
        await consumer.subscribe([topic])
        await consumer.seek_to_beginning()
        with trio.fail_after(30):
            while not consumer.assignment:
                with contextlib.suppress(mk.BrokerError):  # until metadata has come again
                    await consumer.poll(timeout_ms=50)


async def test_a_group_whose_offsets_cannot_be_asked_for_is_an_error(
    bootstrap: str, topic: str
) -> None:
    # The length of a text is 16 bits: no request can name this group.
    async with mk.Consumer(bootstrap, group_id="g" * 40_000) as consumer:
        await consumer.assign([mk.TopicPartition(topic, 0)])
        with pytest.raises(mk.UnsendableRequestError), trio.fail_after(30):
            await consumer.poll()
