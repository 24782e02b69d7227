"""A long fuzz of one broker: ``make fuzz FRAMES=1000000 BATCHES=1000000``.

Frames of every API and version, plausible and damaged, go over real connections to a broker in a
process of its own; then record batches, each a valid one in which something was changed and the CRC
repaired, in all codecs. The report has what a broker under fire must not do: log a bug, keep a
connection waiting, grow, take a long turn, or (with ``SET=minikafka.validate.records=all``)
acknowledge a batch that no consumer can read.

Without that setting a broker acknowledges such batches, as it does not decode what it stores; the
report counts them.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from minikafka import testing
from minikafka.protocol import records as record_format
from minikafka.protocol.api import ApiKey
from minikafka.protocol.messages import metadata, produce
from tests.interop.fuzzing import KNOWN, Attacker, every_case, frames
from tests.interop.poison import poison
from tests.kit.live import BUG_MARKS
from tests.kit.wire import Wire

MIB = 1 << 20
GROWTH_BYTES_MAX = 96 * MIB
VALIDATES = "minikafka.validate.records"
_TURN_WARNING_MS = "100"
_SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "group.min.session.timeout.ms": "100",
    "log.retention.check.interval.ms": "500",
    "log.cleaner.backoff.ms": "500",
}
_SMALL: dict[str, object] = {"segment_bytes": 1 << 20, "retention_bytes": 16 << 20}
_TOPICS: dict[str, dict[str, object]] = {
    KNOWN[0]: {"cleanup_policy": "compact", **_SMALL},
    KNOWN[1]: _SMALL,
    "fuzz-plain": _SMALL,
    "fuzz-gzip": {"compression_type": "gzip", **_SMALL},
    "fuzz-stamped": {"message_timestamp_type": "LogAppendTime", **_SMALL},
    "fuzz-compact": {"cleanup_policy": "compact", **_SMALL},
}
_BATCH_TOPICS = ("fuzz-plain", "fuzz-gzip", "fuzz-stamped", "fuzz-compact")
_COMPACTED = frozenset({"fuzz-compact"})
_FRAMES_PER_CASE = 10
_BATCHES_PER_REQUEST = len(_BATCH_TOPICS)
_HANG_S = 30.0
_WAIT_S = 0.3
# A damaged request of these may ask for a wait of weeks, which it then gets.
_MAY_WAIT = frozenset({ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.DELETE_RECORDS})


@dataclass
class Report:
    """What happened.

    Attributes:
        frames: how many were sent; `answered`, `refused` and `waited` say what became of them.
        hangs: requests without an answer that must have had one.
        batches: how many were sent.
        acknowledged: how many of them were.
        poison: acknowledged ones that no consumer can read, by codec and reason.
        bugs: lines of the log that show one.
        errors: lines of the log at level ERROR.
        long_turns: lines of the log about turns of more than 100 ms.
        longest_turn: what the broker says at its end.
        rss_before: resident memory when it was ready, and `rss_after` at the end, in bytes.
        seconds: how long it took.
    """

    frames: int = 0
    answered: int = 0
    refused: int = 0
    waited: int = 0
    hangs: list[str] = field(default_factory=list[str])
    batches: int = 0
    acknowledged: int = 0
    poison: Counter[str] = field(default_factory=Counter[str])
    bugs: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])
    long_turns: list[str] = field(default_factory=list[str])
    longest_turn: str = ""
    rss_before: int = 0
    rss_after: int = 0
    seconds: float = 0.0

    def failures(self, *, validates: bool) -> list[str]:
        """What must not have happened."""
        found = [*self.hangs, *self.bugs, *self.long_turns]
        if self.rss_after - self.rss_before > GROWTH_BYTES_MAX:
            found.append(f"it grew from {self.rss_before >> 20} to {self.rss_after >> 20} MiB")
        if validates:
            found += [f"acknowledged poison: {reason}" for reason in self.poison]
        return found

    def __str__(self) -> str:
        lines = [
            f"{self.seconds:.0f} s",
            f"frames: {self.frames}",
            f"    answered {self.answered}, connection closed {self.refused}",
            f"    waiting as asked {self.waited}, hanging {len(self.hangs)}",
            f"batches: {self.batches}, acknowledged {self.acknowledged}",
            f"    of these poison: {self.poison.total()}",
            *(f"    {count} {reason}" for reason, count in self.poison.most_common(20)),
            f"memory: {self.rss_before >> 20} MiB before, {self.rss_after >> 20} MiB after",
            f"turns above {_TURN_WARNING_MS} ms: {len(self.long_turns)}; {self.longest_turn}",
            f"log: {len(self.bugs)} lines of bugs, {len(self.errors)} of errors",
            *self.errors[:20],
        ]
        return "\n".join(lines)


def run(
    frame_count: int, batch_count: int, settings: dict[str, str], folder: Path, seed: int = 0
) -> Report:
    """Attack a broker of its own; its log stays in the folder."""
    report = Report()
    began = time.monotonic()
    kafka = testing.broker(
        {**_SETTINGS, **settings},
        directory=folder,
        environment={"MINIKAFKA_TURN_WARNING_MS": _TURN_WARNING_MS},
    )
    with kafka:
        process = psutil.Process(kafka.pid)
        with Wire(kafka.bootstrap) as wire:
            for name, topic_settings in _TOPICS.items():
                wire.create_topic(name, 1, topic_settings)
            report.rss_before = process.memory_info().rss
            dice = random.Random(f"frames {seed}")
            _send_frames(kafka.bootstrap, wire, frame_count, dice, report)
        with Wire(kafka.bootstrap) as wire:
            for name, topic_settings in _TOPICS.items():  # a fuzz may have deleted them
                wire.delete_topics([name])
                wire.create_topic(name, 1, topic_settings)
            _send_batches(wire, batch_count, random.Random(f"batches {seed}"), report)
        report.rss_after = process.memory_info().rss
        kafka.stop()
        _read_log(kafka.log(), report)
        kafka.long_turns = []  # the report has them
    report.seconds = time.monotonic() - began
    return report


def _read_log(log: str, report: Report) -> None:
    for line in log.splitlines():
        if any(mark in line for mark in BUG_MARKS):
            report.bugs.append(line)
        if " ERROR " in line:
            report.errors.append(line)
        if "ms in one turn" in line:
            if " WARNING " in line:
                report.long_turns.append(line)
            else:
                report.longest_turn = line.rpartition("longest of all turns: ")[2]


# --- frames --------------------------------------------------------------------------------------


def _send_frames(
    address: str, honest: Wire, count: int, dice: random.Random, report: Report
) -> None:
    cases = every_case()
    attacker = Attacker(address)
    topic_ids = _topic_ids(honest)
    while report.frames < count:
        case = dice.choice(cases)
        for frame in frames(case, dice, topic_ids, _FRAMES_PER_CASE // 2):
            _send_frame(attacker, frame, report)
        if dice.random() < 0.01:
            topic_ids = _topic_ids(honest)
    attacker.hang_up()
    report.answered, report.refused = attacker.answered, attacker.refused


def _send_frame(attacker: Attacker, frame: bytes, report: Report) -> None:
    api_key = int.from_bytes(frame[4:6], "big")
    may_wait = api_key in _MAY_WAIT
    report.frames += 1
    try:
        attacker.send(frame, _WAIT_S if may_wait else _HANG_S)
    except TimeoutError:
        attacker.hang_up()
        if may_wait or int.from_bytes(frame[:4], "big") != len(frame) - 4:
            report.waited += 1  # or the frame is shorter than it says, and the rest is awaited
        else:
            report.hangs.append(f"no answer to {frame.hex()}")


def _topic_ids(honest: Wire) -> list[bytes]:
    topics = honest.ask(metadata.Request(topics=None), 12, metadata.Response).topics
    return [topic.topic_id for topic in topics] or [bytes(16)]


# --- batches -------------------------------------------------------------------------------------


def _send_batches(wire: Wire, count: int, dice: random.Random, report: Report) -> None:
    while report.batches < count:
        batches = [hostile_batch(dice) for _ in range(_BATCHES_PER_REQUEST)]
        request = produce.Request(
            acks=1,
            timeout_ms=10_000,
            topic_data=[
                produce.TopicData(
                    name=topic, partition_data=[produce.PartitionData(index=0, records=batch)]
                )
                for topic, batch in zip(_BATCH_TOPICS, batches, strict=True)
            ],
        )
        answer = wire.ask(request, 9, produce.Response)
        for topic, batch in zip(answer.responses, batches, strict=True):
            report.batches += 1
            if topic.partition_responses[0].error_code == 0:
                report.acknowledged += 1
                reason = poison(batch, needs_keys=topic.name in _COMPACTED)
                if reason is not None:
                    report.poison[f"{topic.name}, {_codec(batch)}: {_shortened(reason)}"] += 1


def _codec(batch: bytes) -> str:
    codec = batch[22] & 7
    names = {int(one): one.name.lower() for one in record_format.Compression}
    return names.get(codec, str(codec))


def _shortened(reason: str) -> str:
    """Without the numbers, so that reasons can be counted."""
    return "".join(letter for letter in reason if not letter.isdigit())[:80]


def hostile_batch(dice: random.Random) -> bytes:
    """A valid batch in which something was changed, with the right CRC."""
    codec = dice.choice(list(record_format.Compression))
    records = [
        (
            dice.choice([None, b"", b"key", dice.randbytes(8)]),
            dice.choice([None, b"", dice.randbytes(dice.randint(0, 40)), b"text " * 20]),
            () if dice.random() < 0.7 else (("h", dice.choice([None, b"", b"x"])),),
            1_700_000_000_000 + dice.randint(0, 1000),
        )
        for _ in range(dice.choice([1, 1, 2, 3, 10]))
    ]
    batch = bytearray(record_format.encode_batch(records, compression=codec))
    match dice.randrange(4):
        case 0:  # inside, where only a reader of the records finds it
            plain = bytearray(record_format.encode_batch(records))
            inside = _changed(bytes(plain[record_format.BATCH_HEADER_SIZE_BYTES :]), dice)
            batch[record_format.BATCH_HEADER_SIZE_BYTES :] = record_format.compress(codec, inside)
        case 1:  # what the codec wrote
            body = bytes(batch[record_format.BATCH_HEADER_SIZE_BYTES :])
            batch[record_format.BATCH_HEADER_SIZE_BYTES :] = _changed(body, dice)
        case 2:  # the header, from the attributes on
            at = dice.randrange(21, record_format.BATCH_HEADER_SIZE_BYTES)
            batch[at] = dice.choice([0, 1, 127, 128, 255, batch[at] ^ (1 << dice.randrange(8))])
        case _:
            pass  # a valid one
    if dice.random() < 0.05:
        batch[22] = batch[22] & 0xF8 | dice.randrange(8)  # another codec
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[17:21] = record_format.compute_crc(batch, 0, len(batch)).to_bytes(4, "big")
    return bytes(batch)


def _changed(content: bytes, dice: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(dice.choice([1, 1, 1, 2, 4])):
        at = dice.randrange(len(changed) + 1)
        match dice.randrange(5):
            case 0:
                changed[at : at + 1] = dice.randbytes(1)
            case 1 if at < len(changed):
                changed[at] ^= 1 << dice.randrange(8)
            case 2:
                changed[at:at] = dice.randbytes(dice.randint(1, 3))
            case 3:
                del changed[at:]
            case _:
                del changed[at : at + dice.randint(1, 3)]
    return bytes(changed)


def main(arguments: Sequence[str]) -> int:
    """Run a campaign and print its report; 1 if something happened that must not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    chosen = parser.parse_args(arguments)
    settings = dict(one.split("=", 1) for one in chosen.set)
    with tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as folder:
        report = run(chosen.frames, chosen.batches, settings, Path(folder), chosen.seed)
    sys.stdout.write(f"{report}\n")
    failures = report.failures(validates=settings.get(VALIDATES) == "all")
    for failure in failures:
        sys.stdout.write(f"FAILED: {failure[:2000]}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
