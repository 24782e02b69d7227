"""The share coordinator: who may write, what is stored, and what a restarted one knows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minikafka.coordinator.share.commands import (
    Command,
    Delete,
    Initialize,
    Read,
    Reply,
    ShareStateReply,
    Summarize,
    Write,
)
from minikafka.coordinator.share.records import (
    SharePartitionKey,
    ShareState,
    ShareUpdate,
    combined,
    decode_entry,
    encode_snapshot,
    encode_update,
)
from minikafka.coordinator.share.shard import Effect, ShareStateConfig, ShareStateShard
from minikafka.coordinator.share.share_partition import RecordState, StateBatch
from minikafka.coordinator.writes import Append, Now, Record
from minikafka.protocol.errors import ErrorCode

KEY = SharePartitionKey("group", bytes(range(16)), 3)
ACKNOWLEDGED, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED
NOW = Now(10.0, 1_700_000_000_000)


class Shell:
    """A shard, and the log of its partition."""

    def __init__(self, log: list[Record] | None = None, updates_max: int = 3) -> None:
        self.log: list[Record] = [] if log is None else log
        self.answers: list[ShareStateReply] = []
        self.append_error = ErrorCode.NONE
        self.shard = ShareStateShard(ShareStateConfig(updates_max))
        for offset, (key, value) in enumerate(self.log):
            self.shard.replay(key, value)
            self.shard.written_at(offset, key, value)
        self.carry_out(self.shard.loaded())

    def restart(self) -> Shell:
        return Shell(self.log)

    def ask(self, command: Command) -> ShareStateReply:
        self.carry_out(self.shard.handle(command, "token", NOW))
        return self.answers.pop()

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply(_, reply):
                    self.answers.append(reply)
                case Append(records, write_id):
                    if self.append_error is not ErrorCode.NONE:
                        self.carry_out(self.shard.append_failed(write_id, self.append_error, NOW))
                        continue
                    for key, value in records:
                        self.shard.written_at(len(self.log), key, value)
                        self.log.append((key, value))
                    self.shard.appended(write_id)
                    self.carry_out(self.shard.committed(write_id, NOW))


def begun() -> Shell:
    shell = Shell()
    assert shell.ask(Initialize(KEY, 0, -1)).error_code is ErrorCode.NONE
    assert shell.ask(Read(KEY, 5)).start_offset == -1
    return shell


def write(start: int, *batches: StateBatch, leader_epoch: int = 5, state_epoch: int = 0) -> Write:
    return Write(KEY, state_epoch, leader_epoch, start, len(batches), batches)


def test_a_leader_reads_what_the_one_before_wrote() -> None:
    shell = begun()
    shell.ask(write(10, StateBatch(12, 13, ACKNOWLEDGED, 1)))
    shell.ask(write(11, StateBatch(13, 14, ARCHIVED, 5)))
    wanted = ShareStateReply(
        ErrorCode.NONE,
        0,
        6,
        11,
        1,
        (StateBatch(12, 12, ACKNOWLEDGED, 1), StateBatch(13, 14, ARCHIVED, 5)),
    )
    assert shell.restart().ask(Read(KEY, 6)) == wanted
    assert shell.ask(Read(KEY, 6)) == wanted


def test_a_deposed_leader_is_fenced_from_the_moment_another_one_has_read() -> None:
    shell = begun()
    shell.ask(Read(KEY, 6))
    assert shell.ask(write(1)).error_code is ErrorCode.FENCED_LEADER_EPOCH
    assert shell.restart().ask(Read(KEY, 5)).error_code is ErrorCode.FENCED_LEADER_EPOCH


def test_another_start_fences_leaders_with_the_old_state() -> None:
    shell = begun()
    shell.ask(write(10, StateBatch(12, 13, ACKNOWLEDGED, 1)))
    assert shell.ask(Initialize(KEY, 1, 4)).error_code is ErrorCode.NONE
    assert shell.ask(write(11)).error_code is ErrorCode.FENCED_STATE_EPOCH
    assert shell.ask(Initialize(KEY, 0, 4)).error_code is ErrorCode.FENCED_STATE_EPOCH
    found = shell.restart().ask(Read(KEY, 5))
    assert (found.state_epoch, found.start_offset, found.batches) == (1, 4, ())


def test_initialising_twice_keeps_what_was_written_in_between() -> None:
    shell = begun()
    shell.ask(write(10))
    assert shell.ask(Initialize(KEY, 0, -1)).start_offset == 10
    assert shell.ask(Summarize(KEY)).start_offset == 10


def test_what_was_deleted_is_unknown() -> None:
    shell = begun()
    assert shell.ask(Delete(KEY)).error_code is ErrorCode.NONE
    for one in (shell, shell.restart()):
        for command in (Read(KEY, 6), write(1), Summarize(KEY)):
            assert one.ask(command).error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert shell.ask(Delete(KEY)).error_code is ErrorCode.NONE


def test_after_some_updates_the_whole_state_is_written_and_the_rest_is_not_needed() -> None:
    shell = begun()
    for start in range(5):
        shell.ask(write(start, StateBatch(10 + start, 10 + start, ACKNOWLEDGED, 1)))
    needed = shell.shard.needed_from(len(shell.log))
    assert needed > 0
    rest = Shell(shell.log[needed:])
    assert rest.ask(Read(KEY, 9)) == shell.ask(Read(KEY, 9))
    assert rest.restart().shard.needed_from(100) == 0


def test_what_cannot_be_written_has_not_happened() -> None:
    shell = begun()
    shell.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert shell.ask(write(10)).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert shell.ask(Summarize(KEY)).start_offset == -1


def test_a_write_that_takes_too_long_is_answered_once() -> None:
    shell = begun()
    (append,) = shell.shard.handle(write(10), "slow", NOW)
    assert isinstance(append, Append)
    shell.shard.appended(append.write_id)
    (timed_out,) = shell.shard.expire(Now(15.0, NOW.wall_ms))
    assert timed_out == Reply("slow", ShareStateReply(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert shell.shard.committed(append.write_id, NOW) == []


def test_a_resigned_shard_answers_everybody() -> None:
    shell = begun()
    shell.shard.handle(write(10), "waiting", NOW)
    refusal = ShareStateReply(ErrorCode.NOT_COORDINATOR)
    assert shell.shard.resigned() == [Reply("waiting", refusal)]
    assert shell.ask(Summarize(KEY)) == refusal
    assert ShareStateShard(ShareStateConfig()).handle(Summarize(KEY), "t", NOW) == [
        Reply("t", ShareStateReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    ]


def test_damaged_and_unknown_records_are_skipped() -> None:
    shell = begun()
    key, value = shell.log[0]
    damaged = [(b"\0", b""), (b"\0\x09", b"?"), (key, b"\0\x07"), (key, b"\0\0\1")]
    assert value is not None
    assert Shell([*damaged, *shell.log, *damaged]).ask(Summarize(KEY)).error_code is ErrorCode.NONE


def test_records_are_kafkas_byte_for_byte() -> None:
    batch = StateBatch(5, 6, ACKNOWLEDGED, 2)
    topic_id = bytes(range(16))
    key = b"\0\0" + b"\0\x05group" + topic_id + b"\0\0\0\x03"
    state_batch = bytes(7) + b"\x05" + bytes(7) + b"\x06" + b"\x02" + b"\0\x02" + b"\0"
    snapshot = encode_snapshot(KEY, ShareState(1, 7, 4, 2, (batch,), 3, 10, 11))
    assert snapshot == (
        key,
        b"\0\0"
        b"\0\0\0\x03\0\0\0\x01\0\0\0\x07"
        + (4).to_bytes(8, "big")
        + (10).to_bytes(8, "big")
        + (11).to_bytes(8, "big")
        + b"\x02"
        + state_batch
        + b"\x01\0\x04\0\0\0\x02",
    )
    update = encode_update(KEY, ShareUpdate(3, 7, -1, -1, (batch,)))
    assert update == (
        b"\0\x01" + key[2:],
        b"\0\0" + b"\0\0\0\x03\0\0\0\x07" + b"\xff" * 8 + b"\x02" + state_batch + b"\0",
    )
    for record in (snapshot, update):
        assert decode_entry(*record) is not None


batch_lists = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 4), st.sampled_from([0, 2, 4]), st.integers(1, 2)),
    max_size=5,
)


def laid_out(sizes: list[tuple[int, int, int, int]]) -> tuple[StateBatch, ...]:
    offset = 0
    batches: list[StateBatch] = []
    for hole, size, state, count in sizes:
        batches.append(
            StateBatch(offset + hole, offset + hole + size - 1, RecordState(state), count)
        )
        offset += hole + size
    return tuple(batches)


def by_offset(batches: tuple[StateBatch, ...]) -> dict[int, tuple[RecordState, int]]:
    found: dict[int, tuple[RecordState, int]] = {}
    for one in batches:
        for offset in range(one.first_offset, one.last_offset + 1):
            assert offset not in found
            found[offset] = (one.state, one.delivery_count)
    return found


@given(batch_lists, batch_lists, st.integers(0, 20))
def test_later_batches_lie_over_earlier_ones(
    old: list[tuple[int, int, int, int]], new: list[tuple[int, int, int, int]], start: int
) -> None:
    earlier, later = laid_out(old), laid_out(new)
    expected = {**by_offset(earlier), **by_offset(later)}
    found = combined(earlier, later, start)
    assert by_offset(found) == {key: one for key, one in expected.items() if key >= start}
    assert list(found) == sorted(found)
