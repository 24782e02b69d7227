"""One consumer of a share group that acknowledges every record explicitly."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from minikafka_client import ShareConsumer

from .job import serve_one_job

GO: Final = "go"
_LOOK_AGAIN_SECONDS: Final = 0.01
_QUIET_MS: Final = 3000
"""The queue is empty when nothing has come for so long."""


@dataclass(frozen=True, kw_only=True)
class ShareJob:
    """What to do.

    Attributes:
        name: of the file by which it says that it is ready.
        folder: where that file is written, and where the file `GO` starts all consumers.
        bootstrap: the broker's ``HOST:PORT``.
        topic: what the group reads.
        group_id: the share group.
    """

    name: str
    folder: str
    bootstrap: str
    topic: str
    group_id: str


@dataclass(frozen=True, kw_only=True)
class ShareOutcome:
    """What this consumer did.

    Attributes:
        records: how many it acknowledged, each with success.
        ended: when the last acknowledgement was confirmed, in seconds since 1970.
        cpu_seconds: processor time of the process since it was ready.
    """

    records: int
    ended: float
    cpu_seconds: float


async def _consume(job: ShareJob) -> ShareOutcome:
    async with ShareConsumer(
        job.bootstrap, job.group_id, share_acknowledgement_mode="explicit"
    ) as consumer:
        await consumer.subscribe([job.topic])
        # It heartbeats in the background, and fetches only when it is polled.
        while not consumer.assignment:  # noqa: ASYNC110 - nothing announces it
            await trio.sleep(_LOOK_AGAIN_SECONDS)
        folder = Path(job.folder)
        (folder / job.name).touch()
        while not (folder / GO).exists():  # noqa: ASYNC110 - the event is a file
            await trio.sleep(_LOOK_AGAIN_SECONDS)
        records, ended, cpu_began = 0, time.time(), time.process_time()
        while found := await consumer.poll(timeout_ms=_QUIET_MS):
            for record in found:
                consumer.acknowledge(record)
            for error in (await consumer.commit()).values():
                if error is not None:
                    raise error
            records += len(found)
            ended = time.time()
        cpu_seconds = time.process_time() - cpu_began
    return ShareOutcome(records=records, ended=ended, cpu_seconds=cpu_seconds)


def consume(job: ShareJob) -> ShareOutcome:
    """Take records until there are none."""
    return trio.run(_consume, job)


if __name__ == "__main__":
    serve_one_job(ShareJob, consume)
