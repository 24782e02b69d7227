"""Files that were damaged while the broker was down: nothing damaged is served, the rest is.

The broker is opened in this process, so that thousands of directories can be tried.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from minikafka.broker import lifetime
from minikafka.broker.broker import Broker
from minikafka.broker.replicas.partition import settle_losses
from minikafka.broker.run import open_broker
from minikafka.protocol.records import decode_records, encode_batch, iter_batches
from minikafka.storage.errors import StorageError
from minikafka.storage.log import Log
from tests.faults.campaign import rounds, with_seed
from tests.faults.damage import ON_OTHERS, ON_SEGMENTS, Damage, batches_in, leave_behind
from tests.kit.in_process import options, running_broker

NOW_MS = 1_700_000_000_000
TOPICS: dict[str, dict[str, str]] = {
    "tiny": {"segment.bytes": "1500", "index.interval.bytes": "100"},
    "large": {"index.interval.bytes": "300"},
    "compacted": {
        "segment.bytes": "1500",
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "index.interval.bytes": "100",
    },
}
SETTINGS = ("log.retention.ms=-1", "log.cleaner.enable=false", "auto.create.topics.enable=false")
# A broker does not start with another's directory, nor without its vote.
REFUSED_IF_DAMAGED = {"meta", "partition.metadata", "quorum-state"}
_REOPENINGS_MAX = 5
_CASES = 50
_BLIND_SIZE_BYTES = 2000  # index intervals and a batch, generously

Contents = dict[tuple[str, int], dict[int, bytes | None]]
"""For each partition, the value at each offset."""


async def _fill(directory: Path, crashed_copy: Path, dice: random.Random) -> None:
    async with running_broker(directory, *SETTINGS) as under_test:
        client = under_test.connect()
        for topic, settings in TOPICS.items():
            named = {name.replace(".", "_"): value for name, value in settings.items()}
            await client.create_topic(topic, 2, **named)
        for number in range(240):
            topic = dice.choice(list(TOPICS))
            count = dice.randint(1, 3)
            records = [
                (
                    f"key{dice.randrange(8)}".encode(),
                    f"{topic} {number} {'v' * dice.randrange(250)}".encode(),
                    (),
                    NOW_MS + number,
                )
                for _ in range(count)
            ]
            producer = {"producer_id": 7 + number, "producer_epoch": 0, "base_sequence": 0}
            batch = bytes(encode_batch(records, **(producer if number % 9 == 0 else {})))  # type: ignore[arg-type]  # the names are right
            answer = await client.produce(topic, partition=dice.randrange(2), batch=batch)
            assert answer.error_code == 0, answer
            if number == 150:
                for partition in under_test.broker.partitions.values():
                    partition.log.flush()
                    plan = partition.log.config.cleanup_compact and partition.log.plan_compaction(
                        NOW_MS
                    )
                    if plan:
                        plan.run()
                        assert partition.log.complete_compaction(plan, NOW_MS)
                await under_test.broker.checkpointer.write()
        shutil.copytree(directory, crashed_copy)


def read_everything(broker: Broker) -> Contents:
    contents: Contents = {}
    for key, partition in broker.partitions.items():
        contents[key] = {}
        offset = partition.log.log_start_offset
        while offset < partition.log.log_end_offset:
            offset = _read_some(partition.log, offset, contents[key])
    return contents


def _read_some(log: Log, offset: int, values: dict[int, bytes | None]) -> int:
    found = log.read(offset, size_bytes_max=700, upper_bound_offset=log.log_end_offset)
    if found.records is None:  # compaction left nothing at the end
        return log.log_end_offset
    content = found.records.read()
    for position, header in iter_batches(content):
        if header.record_count:
            for record in decode_records(content, position, check_crc=True):
                if record.offset >= offset:
                    values[record.offset] = record.value
    return found.next_offset


def make_templates(root: Path, seed: int) -> list[tuple[Path, Contents]]:
    """A directory that was closed cleanly and one whose broker was killed, and what they hold."""
    trio.run(_fill, root / "clean", root / "crashed", random.Random(seed))
    found: list[tuple[Path, Contents]] = []
    for name in ("clean", "crashed"):
        shutil.copytree(root / name, root / f"{name}-read")
        broker = open_broker(options(root / f"{name}-read", *SETTINGS))
        found.append((root / name, read_everything(broker)))
        lifetime.close(broker)
    return found


def survivors(directory: Path, template: Path, damage: Damage, topic: str) -> Iterator[int]:
    """Offsets of the batches in a partition that were not touched."""
    for path in sorted((template / topic).glob("*.log")):
        damaged = directory / topic / path.name
        for batch in batches_in(path):
            if not damage.hits(damaged, batch):
                yield from batch.offsets


def do_damage(directory: Path, dice: random.Random, *, is_clean: bool) -> Damage:
    damage = Damage(_BLIND_SIZE_BYTES if is_clean else sys.maxsize)
    partitions = sorted(path for path in directory.glob("*-*") if path.is_dir())
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        kind = dice.random()
        if kind < 0.45:
            segments = sorted(dice.choice(partitions).glob("*.log"))
            dice.choice(ON_SEGMENTS)(dice.choice(segments), dice, damage)
        elif kind < 0.85:
            others = [
                path
                for path in sorted(directory.rglob("*"))
                if path.is_file() and path.suffix != ".log" and path.name not in REFUSED_IF_DAMAGED
            ]
            dice.choice(ON_OTHERS)(dice.choice(others), dice, damage)
        else:
            leave_behind(dice.choice(partitions), dice, damage)
    return damage


def open_and_read(directory: Path) -> tuple[Broker, Contents]:
    """Open the broker; a partition that goes offline on damage is opened again, as it would be."""
    broker = open_broker(options(directory, *SETTINGS))
    for _ in range(_REOPENINGS_MAX):
        try:
            return broker, read_everything(broker)
        except StorageError:
            for (topic, number), partition in broker.partitions.items():
                if partition.log.is_offline is not None:
                    config = partition.log.config
                    partition.log = broker.directory.reopen_log(
                        topic, number, config, now_ms=NOW_MS
                    )
                    settle_losses(partition.log, 1, partition.leader_epoch, NOW_MS)
    return broker, read_everything(broker)


@with_seed
@pytest.mark.slow
@pytest.mark.timeout(36_000)
def test_damaged_data_is_never_served_and_everything_else_is(tmp_path: Path, seed: int) -> None:
    templates = make_templates(tmp_path, seed)
    for case in range(rounds(_CASES)):
        dice = random.Random(f"{seed} {case}")
        template, before = dice.choice(templates)
        directory = tmp_path / f"case{case}"
        shutil.copytree(template, directory)
        damage = do_damage(directory, dice, is_clean=template.name == "clean")
        told = f"case {case} of seed {seed}, {template.name}: {'; '.join(damage.steps)}"
        try:
            broker, after = open_and_read(directory)
        except Exception as error:
            error.add_note(told)
            raise
        assert not broker.directory.offline, (told, broker.directory.offline)
        for (topic, number), values in before.items():
            found = after[topic, number]
            wrong = {offset for offset, value in found.items() if values.get(offset) != value}
            assert not wrong, f"{told}: {topic}-{number} serves other records at {wrong}"
            intact = set(survivors(directory, template, damage, f"{topic}-{number}"))
            lost = (intact & values.keys()) - found.keys()
            assert not lost, f"{told}: {topic}-{number} lost intact records at {sorted(lost)}"
            if template.name == "clean" and not damage.has_hit_checkpoints:
                end = broker.partitions[topic, number].log.log_end_offset
                assert end > max(values), f"{told}: {topic}-{number} ends at {end} now"
        lifetime.close(broker)
        broker.directory.files.make_room()  # closes them
        shutil.rmtree(directory)
