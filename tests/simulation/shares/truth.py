"""What has happened to the records of a share group, seen from outside, and what must be true.

A delivery or an acknowledgement counts when the broker has handled it, whether or not the member
ever hears of it. Words count when they arrive, so that nothing that might be stored is a surprise.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import trio

from minikafka.broker.shares.partitions import RunningShare
from minikafka.coordinator.share.records import ShareState
from minikafka.coordinator.share.share_partition import AcknowledgeType, RecordState
from minikafka.lab.simulation.kit.invariants import require

LIMIT = 3
LOCK_S = 4.0
RECORD_LOCKS_MAX = 24
BATCH_MAX = 6
PARTITIONS = 3
FINAL = frozenset({AcknowledgeType.ACCEPT, AcknowledgeType.REJECT, AcknowledgeType.GAP})


@dataclass
class Holder:
    """Who has a record; `is_given_back`: others may have it before the lock runs out."""

    member: str
    until: float
    count: int
    is_given_back: bool = False


@dataclass
class Story:
    """What was said and done about one offset since the group last began in its partition."""

    words: set[AcknowledgeType] = field(default_factory=set[AcknowledgeType])
    count_max: int = 0
    released_at: int = 0
    confirmed: AcknowledgeType | None = None
    letters: int = 0


class PartitionTruth:
    """One partition: its log, who leads it, and what has become of its records.

    Attributes:
        batches: first and last offset, and whether members may get it.
        log_start: what is below was deleted.
        leader_epoch: the current one; whoever leads in an older one does not know it yet.
        state_epoch: how often an administrator has set the start.
        is_uncertain: an administrator is setting it.
        start: where the group began, and then where its stored state starts.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.batches: list[tuple[int, int, bool]] = []
        self.log_start = 0
        self.end = 0
        self.leader = 0
        self.leader_epoch = 0
        self.state_epoch = 0
        self.is_uncertain = False
        self.start = 0
        self.stories: defaultdict[int, Story] = defaultdict(Story)
        self._with_data: set[int] = set()

    def append(self, size: int, *, has_records: bool, hole: int) -> None:
        """Append a batch, with offsets before it that compaction has emptied."""
        first = self.end + hole
        self.batches.append((first, first + size - 1, has_records))
        if has_records:
            self._with_data.update(range(first, first + size))
        self.end = first + size

    def has_data(self, offset: int) -> bool:
        return offset in self._with_data and offset >= self.log_start

    def begin_again(self, start: int) -> None:
        """An administrator has set the start."""
        self.state_epoch += 1
        self.start = start
        self.stories.clear()
        self.is_uncertain = False

    def is_given_up(self, offset: int) -> bool:
        story = self.stories[offset]
        gone = {AcknowledgeType.REJECT, AcknowledgeType.GAP} & story.words
        return bool(gone) or story.count_max >= LIMIT or not self.has_data(offset)

    def may_be_finished(self, offset: int) -> bool:
        return AcknowledgeType.ACCEPT in self.stories[offset].words or self.is_given_up(offset)


class Truth:
    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note
        self.counts: Counter[str] = Counter()
        self.partitions = [PartitionTruth(index) for index in range(PARTITIONS)]
        self._holders: dict[RunningShare, dict[int, Holder]] = {}

    def is_current(self, running: RunningShare) -> bool:
        """It is not run by a leader, or from a state, that was replaced unnoticed."""
        truth = self.partitions[running.key.partition]
        return (
            running.leader_epoch == truth.leader_epoch
            and running.state_epoch == truth.state_epoch
            and not truth.is_uncertain
        )

    # --- what members do -------------------------------------------------------------------------

    def said(
        self,
        member: str,
        running: RunningShare | None,
        words: Iterable[tuple[int, int]],
        index: int,
    ) -> dict[int, int]:
        """A member's words arrive at a leader; returns the deliveries that it releases."""
        holders = self._holders.get(running, {}) if running is not None else {}
        released: dict[int, int] = {}
        for offset, number in words:
            word = AcknowledgeType(number)
            self.partitions[index].stories[offset].words.add(word)
            holder = holders.get(offset)
            if word is AcknowledgeType.RELEASE and holder is not None and holder.member == member:
                holder.is_given_back = True
                released[offset] = holder.count
        return released

    def stored(
        self,
        member: str,
        running: RunningShare | None,
        words: Iterable[tuple[int, int]],
        index: int,
        released: Mapping[int, int],
        arrived: float,
    ) -> None:
        """A leader says that a member's words are stored."""
        truth = self.partitions[index]
        holders = self._holders.get(running, {}) if running is not None else {}
        for offset, number in words:
            word, story = AcknowledgeType(number), truth.stories[offset]
            self.counts[word.name.lower()] += 1
            if word is AcknowledgeType.RENEW:
                holder = holders.get(offset)
                if holder is not None and holder.member == member:
                    holder.until = max(holder.until, arrived + LOCK_S)
            elif word is AcknowledgeType.RELEASE:
                story.released_at = max(story.released_at, released.get(offset, 0))
            elif story.confirmed is None:
                story.confirmed = word

    def delivered(
        self, member: str, running: RunningShare, first: int, last: int, count: int
    ) -> None:
        """A leader gives records to a member."""
        truth, now = self.partitions[running.key.partition], trio.current_time()
        require(count <= LIMIT, "delivery counts", f"delivery {count}, and {LIMIT} are allowed")
        holders = self._holders.setdefault(running, {})
        for offset in range(first, last + 1):
            where = f"{member} gets {truth.index}:{offset}"
            before = holders.get(offset)
            if before is not None:
                require(
                    before.is_given_back or now >= before.until,
                    "one holder",
                    f"{where}, which {before.member} has until {before.until:.3f}",
                )
                require(
                    count == before.count + 1,
                    "delivery counts",
                    f"{where} as delivery {count} after {before.count}",
                )
            holders[offset] = Holder(member, now + LOCK_S, count)
            story = truth.stories[offset]
            if not self.is_current(running):
                self.counts["deliveries by deposed leaders"] += 1
                story.count_max = max(story.count_max, count)
                continue
            require(
                story.confirmed is None,
                "finished is finished",
                f"{where}, and {story.confirmed!r} was confirmed",
            )
            require(not story.letters, "dead letters", f"{where}, which has a dead letter")
            require(
                count > story.released_at,
                "delivery counts",
                f"{where} as delivery {count}; delivery {story.released_at} is stored",
            )
            story.count_max = max(story.count_max, count)
            self.counts["deliveries"] += 1

    def gave_back(self, member: str, runnings: Iterable[RunningShare]) -> None:
        """A member's session has ended, or is about to."""
        for running in runnings:
            for holder in self._holders.get(running, {}).values():
                if holder.member == member:
                    holder.is_given_back = True

    # --- what is stored --------------------------------------------------------------------------

    def look_at(self, index: int, state: ShareState) -> None:
        """The coordinator has this state in its log."""
        truth = self.partitions[index]
        if truth.is_uncertain or state.start_offset < 0:
            return
        for offset in range(truth.start, state.start_offset):
            require(
                truth.may_be_finished(offset),
                "the start passes over nothing",
                f"{index} starts at {state.start_offset}, and {offset} is not finished",
            )
        require(
            state.start_offset >= truth.start,
            "the start passes over nothing",
            f"{index} goes back from {truth.start} to {state.start_offset}",
        )
        truth.start = state.start_offset
        for batch in state.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                accepted = AcknowledgeType.ACCEPT in truth.stories[offset].words
                is_possible = {
                    RecordState.AVAILABLE: True,
                    RecordState.ACKNOWLEDGED: accepted,
                    RecordState.ARCHIVING: truth.is_given_up(offset),
                    RecordState.ARCHIVED: truth.is_given_up(offset),
                }.get(batch.state, False)
                require(is_possible, "stored states", f"{index}:{offset} is {batch.state.name}")

    def look_at_loaded(self, index: int, state: ShareState | None) -> None:
        """The next coordinator begins with this state."""
        truth = self.partitions[index]
        if truth.is_uncertain:
            return
        require(state is not None, "confirmed is stored", f"there is no state for {index}")
        assert state is not None
        truth.start = min(truth.start, state.start_offset)  # what was not committed may be gone
        finished = {
            offset
            for batch in state.batches
            if batch.state
            in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED, RecordState.ARCHIVING)
            for offset in range(batch.first_offset, batch.last_offset + 1)
        }
        for offset, story in truth.stories.items():
            require(
                story.confirmed is None
                or offset < max(state.start_offset, truth.log_start)
                or offset in finished,
                "confirmed is stored",
                f"{index}:{offset} was confirmed; it is not in {state}",
            )

    def letter(self, index: int, offset: int) -> None:
        """A dead letter is written."""
        truth = self.partitions[index]
        self.counts["dead letters"] += 1
        require(
            truth.is_uncertain or truth.is_given_up(offset),
            "dead letters",
            f"{index}:{offset} was never given up",
        )
        truth.stories[offset].letters += 1

    def check_end(self, index: int, state: ShareState, first: int) -> None:
        """Everything is finished, and what was given up has its dead letter."""
        truth = self.partitions[index]
        require(
            state.start_offset == truth.end,
            "everything is finished",
            f"{index} starts at {state.start_offset}, and its log ends at {truth.end}",
        )
        for offset in range(max(first, truth.log_start), truth.end):
            story = truth.stories[offset]
            require(
                not truth.has_data(offset)
                or AcknowledgeType.ACCEPT in story.words
                or story.letters > 0,
                "dead letters",
                f"{index}:{offset} was given up without a dead letter",
            )


def words_of(partition: Any) -> list[tuple[int, int]]:
    """Offsets and types of what a request says about a partition."""
    found: list[tuple[int, int]] = []
    for batch in partition.acknowledgement_batches:
        offsets = range(batch.first_offset, batch.last_offset + 1)
        types = batch.acknowledge_types
        found += [
            (offset, types[0] if len(types) == 1 else types[number])
            for number, offset in enumerate(offsets)
        ]
    return found
