"""The audit in plain Python: what the Spark job has to find."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pyspark_minikafka.audit import Expectation, Scope

SCHEMA = "topic string, partition int, offset long, producer string, sequence long"

Place = tuple[str, int | None, str | None]


@dataclass(frozen=True, order=True)
class Seen:
    """One record."""

    topic: str
    partition: int
    offset: int
    producer: str | None
    sequence: int | None


@dataclass
class Found:
    """The findings for one producer in one place; `lost` is None if unknown."""

    records: int = 0
    lost: int | None = 0
    duplicated: int = 0
    reordered: int = 0
    unnumbered: int = 0


@dataclass
class _Sequence:
    """One sequence of numbers, and how often each occurs in each partition."""

    times: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))

    def lost(self, expectation: Expectation, producer: str) -> int:
        first, last = min(self.times), max(self.times)
        first = first if expectation.first is None else min(first, expectation.first)
        records = expectation.records_of.get(producer, expectation.records)
        if expectation.first is not None and records is not None:
            last = max(last, expectation.first + records - 1)
        return len(set(range(first, last + 1)) - set(self.times))


def expected(records: Iterable[Seen], scope: Scope, expectation: Expectation) -> dict[Place, Found]:
    """The expected result of `audited`."""
    found: dict[Place, Found] = defaultdict(Found)
    sequences: dict[Place, _Sequence] = defaultdict(_Sequence)
    largest: dict[Place, int] = {}
    known: set[tuple[Place, int]] = set()
    for seen in sorted(records):
        place = (seen.topic, seen.partition, seen.producer)
        found[place].records += 1
        if seen.sequence is None or seen.producer is None:
            found[place].unnumbered += 1
            found[place].lost = None
            continue
        late = largest.get(place, seen.sequence) > seen.sequence
        found[place].reordered += late and (place, seen.sequence) not in known
        known.add((place, seen.sequence))
        largest[place] = max(largest.get(place, seen.sequence), seen.sequence)
        home = place if scope is Scope.PARTITION else (seen.topic, None, seen.producer)
        sequences[home].times[seen.sequence][seen.partition] += 1
    for (topic, partition, producer), sequence in sequences.items():
        assert producer is not None
        if scope is Scope.TOPIC:
            _add_up(found, topic, producer)
        found[topic, partition, producer].lost = sequence.lost(expectation, producer)
        for times in sequence.times.values():
            # The lowest partition has the original.
            for rank, (number, count) in enumerate(sorted(times.items())):
                extra = count - (rank == 0)
                found[topic, number, producer].duplicated += extra
                found[topic, None, producer].duplicated += extra * (scope is Scope.TOPIC)
    there = {producer for _, _, producer in found}
    for producer, count in expectation.records_of.items():
        if producer not in there and count:
            found["-", None, producer] = Found(lost=count)
    return {place: one for place, one in found.items() if vars(one) != vars(Found())}


def _add_up(found: dict[Place, Found], topic: str, producer: str) -> None:
    places = [place for place in found if place[::2] == (topic, producer) and place[1] is not None]
    total = found[topic, None, producer]
    for place in places:
        found[place].lost = None
        total.records += found[place].records
        total.reordered += found[place].reordered


def drawn(dice: random.Random, topic: str) -> Iterator[Seen]:
    """A topic with lost, duplicated and reordered records."""
    offsets = [dice.choice((0, 0, 1_000))] * dice.randint(1, 3)
    accidents = dice.choice((0.0, 0.05, 0.4))

    def append(partition: int, producer: str | None, sequence: int | None) -> Seen:
        offsets[partition] += dice.choice((1, 1, 1, 3))
        return Seen(topic, partition, offsets[partition], producer, sequence)

    streams: list[list[tuple[int, str, int]]] = []
    for name in ("a", "b", "c")[: dice.randint(1, 3)]:
        first = dice.choice((0, 1, 7, 1_000_000, -3))
        numbers = list(range(first, first + dice.randint(1, 40)))
        for _ in numbers:
            if dice.random() < accidents:
                match dice.choice(("lose", "repeat", "swap", "skip")):
                    case "lose" if len(numbers) > 1:
                        del numbers[dice.randrange(len(numbers))]
                    case "repeat":
                        numbers.insert(dice.randrange(len(numbers)), dice.choice(numbers))
                    case "swap":
                        one, other = (dice.randrange(len(numbers)) for _ in "12")
                        numbers[one], numbers[other] = numbers[other], numbers[one]
                    case _:
                        at = dice.randrange(len(numbers))
                        numbers[at:] = [number + 11 for number in numbers[at:]]
        streams.append([(dice.randrange(len(offsets)), name, number) for number in numbers])
    while streams:
        stream = dice.choice(streams)
        yield append(*stream.pop(0))
        if dice.random() < accidents / 5:
            yield append(dice.randrange(len(offsets)), None, None)
        streams = [each for each in streams if each]
