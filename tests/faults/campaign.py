"""A broker that is killed repeatedly, and threads of clients that continue with the next one.

    MINIKAFKA_FAULTS_SEED=7 MINIKAFKA_FAULTS_ROUNDS=200 pytest tests/faults

makes another campaign and a longer one; the seed is in the name of each test.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.faults.sightings import Sightings
from tests.kit.live import JudgedBroker
from tests.kit.waiting import Progress
from tests.kit.wire import Wire

with_seed = pytest.mark.parametrize("seed", [int(os.environ.get("MINIKAFKA_FAULTS_SEED", "1"))])

_ROUNDS = int(os.environ.get("MINIKAFKA_FAULTS_ROUNDS", "0"))


def rounds(short: int) -> int:
    """How many rounds a campaign has: `short` in `make test`, more on request."""
    return _ROUNDS or short


_CHOICES: dict[str, Sequence[str]] = {
    "log.segment.bytes": ("4096", "16384", "1000000"),
    "log.index.interval.bytes": ("0", "1", "200", "4096"),
    "log.flush.interval.messages": ("1", "7", "9223372036854775807"),
    "log.flush.scheduler.interval.ms": ("5", "100"),
    "log.flush.offset.checkpoint.interval.ms": ("20", "500", "60000"),
    "log.cleaner.backoff.ms": ("10", "200"),
    "log.segment.delete.delay.ms": ("0", "50"),
}


def drawn_settings(dice: random.Random) -> dict[str, str]:
    """Settings that make everything happen often: tiny segments, frequent background work."""
    drawn = {name: dice.choice(choices) for name, choices in _CHOICES.items()}
    return drawn | {
        "log.retention.check.interval.ms": "30",
        "log.retention.ms": "-1",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "offsets.topic.num.partitions": "3",
        "offsets.topic.segment.bytes": "2048",
    }


class Worker(threading.Thread, ABC):
    """One client of a campaign, in a thread of its own.

    Attributes:
        dice: its own, so that its choices do not depend on the other threads.
        done: steps that it has finished.
    """

    def __init__(self, campaign: Campaign, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.campaign = campaign
        self.dice = random.Random(f"{campaign.seed} {name}")
        self.done = 0

    def run(self) -> None:
        """Work until the campaign is over, on one broker after the other."""
        generation = 0
        try:
            while not self.campaign.over.is_set():
                generation, address = self.campaign.next_broker(generation)
                if address is None:
                    return
                try:
                    with Wire(address) as link:
                        self.begin(link)
                        while not self.campaign.over.is_set():
                            self.step(link)
                            self.done += 1
                            self.campaign.progress.announce()
                        self.finish(link)
                except TimeoutError:
                    raise
                except OSError:
                    continue
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self.campaign.report(error)

    def begin(self, link: Wire) -> None:
        """There is a new connection, perhaps to a new broker."""

    @abstractmethod
    def step(self, link: Wire) -> None:
        """Do one thing."""

    def finish(self, link: Wire) -> None:
        """The campaign is over, and this broker keeps running."""

    def check(self, link: Wire) -> None:
        """Compare what was promised with what is there; the main thread calls it at rest."""


class Campaign:
    """Runs workers against one data directory while the broker comes and goes.

    Attributes:
        seed: of all choices.
        sightings: everything that was read.
        progress: announced after every step of every worker.
        over: set when workers should finish.
    """

    def __init__(self, directory: Path, seed: int, settings: dict[str, str] | None = None) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.sightings = Sightings()
        self.progress = Progress()
        self.over = threading.Event()
        self._settings = settings or {}
        self._directory = directory
        self._generation = 0
        self._address: str | None = None
        self._failures: list[BaseException] = []
        self._workers: list[Worker] = []
        self.broker = self._new_broker()

    def _new_broker(self) -> JudgedBroker:
        return JudgedBroker(self._directory, drawn_settings(self.dice) | self._settings)

    def report(self, failure: BaseException) -> None:
        """A worker found a broken promise."""
        self._failures.append(failure)
        self.progress.announce()

    def next_broker(self, generation: int) -> tuple[int, str | None]:
        """Wait for a broker that a worker has not seen yet; no address when all is over."""

        def is_new() -> bool:
            return self.over.is_set() or self._generation > generation or bool(self._failures)

        self.progress.wait_until(is_new, what="the next broker")
        if self._generation > generation and not self._failures:
            return self._generation, self._address
        return generation, None

    def start(self, workers: Sequence[Worker]) -> None:
        self._workers += workers
        self._serve()
        for worker in workers:
            worker.start()

    def _serve(self) -> None:
        self.broker.start()
        self._address = self.broker.bootstrap
        self._generation += 1
        self.progress.announce()

    def work(self, steps: int) -> None:
        """Wait until each has taken a step, and all together so many on average."""
        before = [worker.done for worker in self._workers]

        def is_done() -> bool:
            done = [now.done - then for now, then in zip(self._workers, before, strict=True)]
            return bool(self._failures) or (min(done) > 0 and sum(done) >= steps * len(done))

        self.progress.wait_until(
            is_done,
            what=f"{steps} steps of each worker",
            show=lambda: (
                [(worker.name, worker.done) for worker in self._workers],
                self.broker.log()[-3000:],
            ),
        )
        self._raise_failures()

    def _raise_failures(self) -> None:
        for failure in self._failures:
            failure.add_note(f"seed {self.seed}; the broker's log ends with:")
            failure.add_note(self.broker.log()[-5000:])
            raise failure

    def crash(self) -> None:
        """SIGKILL, and a new broker on the same directory."""
        self.broker.kill()
        self._after_end()

    def restart(self) -> None:
        """SIGTERM, which must succeed, and a new broker."""
        self.broker.stop(signal.SIGTERM)
        self._after_end()

    def pause(self, meanwhile: Callable[[], object]) -> None:
        """SIGSTOP the broker, do something, then SIGCONT it."""
        self.broker.pause()
        meanwhile()
        self.broker.resume()

    def _after_end(self) -> None:
        self.broker.check_log()
        self._raise_failures()
        self.broker.close()
        self.broker = self._new_broker()
        self._serve()

    def end(self) -> None:
        """Let all workers finish on the last broker, then check every promise."""
        self.over.set()
        self.progress.announce()
        for worker in self._workers:
            worker.join(60)
            assert not worker.is_alive(), f"{worker.name} hangs"
        self._raise_failures()
        assert self._address is not None
        with Wire(self._address) as link:
            for worker in self._workers:
                worker.check(link)

    def close(self) -> None:
        self.over.set()
        self.progress.announce()
        if self.broker.is_running:
            self.broker.kill()
        self.broker.close()
