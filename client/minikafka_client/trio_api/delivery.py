"""What `Producer.send` returns: a handle for a record's delivery."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import trio

from minikafka_client.core.producer_batch import BatchState, ProducerBatch
from minikafka_client.core.record_handle import RecordHandle, RecordHandles, metadata_of
from minikafka_client.types import RecordMetadata


class Delivery(RecordHandle):
    """The delivery of one record: ``await delivery`` returns a `RecordMetadata` or raises.

    It is a tuple because that is the fastest object to create; its items are private.
    """

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        return self._wait().__await__()

    async def _wait(self) -> RecordMetadata:
        await wait_until_done(self[0])
        return self.result()

    def result(self) -> RecordMetadata:
        """The outcome of a delivery that `is_done`.

        Raises:
            KafkaError: the record was not delivered.
            ValueError: it is not decided yet.
        """
        return metadata_of(*self)


class Deliveries(RecordHandles[Delivery]):
    """The handles of many records; ``await deliveries`` gives a list of `RecordMetadata`.

    Awaiting raises the error of the first record that failed, once all are decided.
    """

    def __init__(self) -> None:
        super().__init__(Delivery)

    def __await__(self) -> Generator[Any, Any, list[RecordMetadata]]:
        return self._wait().__await__()

    async def _wait(self) -> list[RecordMetadata]:
        for batch in self._batches():
            await wait_until_done(batch)
        return self._results()


async def wait_until_done(batch: ProducerBatch) -> None:
    """Wait until a batch is acknowledged or has failed."""
    if batch.state is BatchState.DONE:
        await trio.lowlevel.checkpoint()
        return
    done = trio.Event()
    batch.on_done.append(done.set)
    if batch.on_awaited is not None:
        batch.on_awaited()
    await done.wait()
