"""Share groups without one of their guards; the simulation notices each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minikafka.broker.shares.partitions import SharePartitionService
from minikafka.coordinator.share import records, share_partition
from minikafka.coordinator.share.commands import Reply, Write
from minikafka.coordinator.share.shard import ShareStateShard
from minikafka.coordinator.share.share_partition import RecordState, SharePartition
from minikafka.protocol.errors import ErrorCode
from tests.simulation.kit.mutants import Mutant, always

SEEDS = 200

_append, _write, _read = ShareStateShard._append, ShareStateShard._write, ShareStateShard._read
_time_out = SharePartition._time_out_locks


def answer_before_the_commit(
    self: ShareStateShard, entry: Any, token: Any, reply: Any, now: Any
) -> list[Any]:
    return [*_append(self, entry, None, reply, now), Reply(token, reply)]


def write_for_any_leader(self: ShareStateShard, state: Any, command: Write, *rest: Any) -> Any:
    epoch = command.leader_epoch if state is None else state.leader_epoch
    return _write(self, state, command._replace(leader_epoch=epoch), *rest)


def write_in_any_state(self: ShareStateShard, state: Any, command: Write, *rest: Any) -> Any:
    epoch = command.state_epoch if state is None else state.state_epoch
    return _write(self, state, command._replace(state_epoch=epoch), *rest)


def read_without_batches(self: ShareStateShard, state: Any, *rest: Any) -> Any:
    return _read(self, state if state is None else replace(state, batches=()), *rest)


def believe_everybody(
    self: SharePartition, member_id: str, batches: Any, decisions: list[Any]
) -> ErrorCode:
    del member_id
    for batch in batches:
        if batch.last_offset >= self.next_offset:
            return ErrorCode.INVALID_REQUEST
        if batch.last_offset >= self.start_offset:
            first = max(batch.first_offset, self.start_offset)
            decisions += share_partition._decisions(batch, first)
    return ErrorCode.NONE


def time_out_what_is_being_stored(self: SharePartition, now: float) -> bool:
    for run in self._runs:
        if run.state is RecordState.ACQUIRED and run.locked_until <= now + 2:
            run.target = None
    is_any = _time_out(self, now + 2)
    if self._next_lock_timeout is not None:
        self._next_lock_timeout = max(self._next_lock_timeout, now + 0.1)
    return is_any


def forget_locks(self: SharePartition, now: float) -> bool:
    del now
    self._next_lock_timeout = None
    return False


def give_what_others_have(run: Any) -> bool:
    return run.state in (RecordState.AVAILABLE, RecordState.ACQUIRED)


def keep_the_latest(_: Any, new: Any, start_offset: int) -> Any:
    return tuple(one for one in new if one.first_offset >= start_offset)


MUTANTS = (
    Mutant(
        "records are given that others have",
        SEEDS,
        ((share_partition._Run, "is_free", property(give_what_others_have)),),
    ),
    Mutant("locks never run out", SEEDS, ((SharePartition, "_time_out_locks", forget_locks),)),
    Mutant(
        "locks run out early, also of what is being stored",
        SEEDS,
        ((SharePartition, "_time_out_locks", time_out_what_is_being_stored),),
    ),
    Mutant(
        "records are delivered without end",
        SEEDS,
        ((SharePartition, "_released_state", always(RecordState.AVAILABLE)),),
    ),
    Mutant("any number is in flight", SEEDS, ((SharePartition, "_room", always(1000)),)),
    Mutant(
        "anybody may acknowledge anything", SEEDS, ((SharePartition, "_check", believe_everybody),)
    ),
    Mutant(
        "the start passes over what is not finished",
        SEEDS,
        ((SharePartition, "_start_after_write", lambda self: self.next_offset),),
    ),
    Mutant(
        "the end of a session releases nothing",
        SEEDS,
        ((SharePartition, "release_member", always([])),),
    ),
    Mutant(
        "a session does not end with its connection",
        SEEDS,
        ((SharePartitionService, "connection_lost", always(None)),),
    ),
    Mutant(
        "acknowledgements are answered before they are committed",
        SEEDS,
        ((ShareStateShard, "_append", answer_before_the_commit),),
    ),
    Mutant(
        "deposed leaders may write", SEEDS, ((ShareStateShard, "_write", write_for_any_leader),)
    ),
    Mutant(
        "leaders may write to a state that began again",
        SEEDS,
        ((ShareStateShard, "_write", write_in_any_state),),
    ),
    Mutant(
        "a new leader does not know what is finished",
        SEEDS,
        ((ShareStateShard, "_read", read_without_batches),),
    ),
    Mutant("updates replace what was stored", SEEDS, ((records, "combined", keep_the_latest),)),
    Mutant(
        "updates are pruned that no snapshot has",
        SEEDS,
        ((ShareStateShard, "needed_from", lambda _, end_offset: end_offset),),
    ),
    Mutant(
        "what is given up has no dead letter",
        SEEDS,
        ((SharePartition, "_given_up_state", RecordState.ARCHIVED),),
    ),
    Mutant(
        "a new leader does not write missing dead letters",
        SEEDS,
        ((SharePartition, "resume", always([])),),
    ),
)
