"""Offsets, against a model that knows which writes are settled."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from minikafka.coordinator.group.offsets import Offsets
from minikafka.coordinator.group.records import CommittedOffset, OffsetKey

KEYS = st.builds(
    OffsetKey, st.sampled_from(["g", "h"]), st.sampled_from(["t", "u"]), st.integers(0, 1)
)
COMMITTED = st.none() | st.builds(
    CommittedOffset, st.integers(0, 99), st.just(0), st.just(""), st.just(0)
)


class OffsetsMachine(RuleBasedStateMachine):
    """Writes at the end of a log that fail or are committed."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets = Offsets()
        self.log: list[tuple[OffsetKey, CommittedOffset | None]] = []
        self.settled: set[int] = set()

    @rule(key=KEYS, committed=COMMITTED)
    def write(self, key: OffsetKey, committed: CommittedOffset | None) -> None:
        self.offsets.begin(key)
        self.offsets.replay(key, committed)
        self.log.append((key, committed))

    @rule(key=KEYS, committed=COMMITTED)
    def write_fails(self, key: OffsetKey, committed: CommittedOffset | None) -> None:
        self.offsets.begin(key)
        self.offsets.settle(key, committed, len(self.log) + 1, is_kept=False)

    @rule(ahead=st.integers(0, 3))
    def settle(self, ahead: int) -> None:
        """The high watermark has moved; the commits are reported in any order."""
        waiting = [index for index in range(len(self.log)) if index not in self.settled]
        if ahead < len(waiting):
            index = waiting[ahead]
            key, committed = self.log[index]
            self.offsets.settle(key, committed, index + 1, is_kept=True)
            self.settled.add(index)

    @invariant()
    def the_log_is_stored(self) -> None:
        expected = {key: committed for key, committed in dict(self.log).items() if committed}
        stored = {k: v for group in ("g", "h") for k, v in self.offsets.stored(group)}
        assert stored == expected
        assert set(self.offsets.groups()) == {key.group_id for key in expected}
        for key, _ in self.log:
            assert self.offsets.has_stored(key) == (key in expected)

    @invariant()
    def readers_see_the_newest_that_is_settled(self) -> None:
        settled = [write for index, write in enumerate(self.log) if index in self.settled]
        expected = {key: committed for key, committed in dict(settled).items() if committed}
        for key, _ in self.log:
            assert self.offsets.read(key) == expected.get(key)
        for group in ("g", "h"):
            found = {
                OffsetKey(group, topic, partition): committed
                for topic, partitions in self.offsets.read_all(group).items()
                for partition, committed in partitions.items()
            }
            assert found == {k: v for k, v in expected.items() if k.group_id == group}


TestOffsets = OffsetsMachine.TestCase
