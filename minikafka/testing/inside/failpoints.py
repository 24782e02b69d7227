"""Where the failpoints are: the calls in the broker's code before or after which each of them is.

Nothing of this is in the broker. With the first failpoint that a test sets, the methods below are
replaced by ones that also look whether something is to happen. A broker that serves in earnest
never loads this module, so a failpoint costs it nothing at all.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final, NamedTuple

from minikafka.broker.coordinators.groups import GroupService
from minikafka.broker.coordinators.marker_sender import MarkerSender
from minikafka.broker.coordinators.transactions import TransactionService
from minikafka.broker.handlers.acknowledgements import Acknowledgements
from minikafka.broker.quorum.quorum import Quorum
from minikafka.broker.replicas.fetch_server import FetchServer
from minikafka.broker.replicas.partition import Partition
from minikafka.coordinator.group.classic.rebalance import Rebalance
from minikafka.coordinator.transaction import InitProducer
from minikafka.coordinator.transaction.shard import TransactionShard
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import offset_commit
from minikafka.storage.log import Log
from minikafka.testing.failpoints import FailpointName, reached_line

_STDERR: Final = 2
_INTERNAL: Final = "__"


class FailpointError(RuntimeError):
    """What a test wanted: an error that nobody has foreseen."""


class _Call(NamedTuple):
    """A call of one of the methods below.

    Attributes:
        result: what it has returned; None before it.
    """

    one: Any
    arguments: tuple[Any, ...]
    words: dict[str, Any]
    result: Any


class _Point(NamedTuple):
    """Where a failpoint is.

    Attributes:
        is_after: after the call has returned, not before it begins.
        applies: whether this call is one of those.
    """

    owner: type[Any]
    method: str
    is_after: bool
    applies: Callable[[_Call], bool]


def _is_for_users(call: _Call) -> bool:
    """Whether it is about a partition, or its log, of a topic that users made."""
    if isinstance(call.one, Partition):
        return not call.one.topic.name.startswith(_INTERNAL)
    log = call.one if isinstance(call.one, Log) else call.arguments[0]
    return not os.path.basename(log.directory).startswith(_INTERNAL)


def _is_from_client(call: _Call) -> bool:
    return bool(call.words.get("from_client", True)) and _is_for_users(call)


def _has_new_epoch(call: _Call) -> bool:
    """Whether a leader has stored nothing under its epoch yet."""
    partition: Partition = call.one
    log = partition.log
    last = log.leader_epochs.epoch_for(log.log_end_offset - 1)
    is_empty = log.log_end_offset == log.log_start_offset
    return _is_for_users(call) and (is_empty or last < partition.leader_epoch)


def _is_committed(call: _Call) -> bool:
    """Whether an answer to a producer has become ready, and no record of it failed."""
    topics = call.one.response.responses
    return not any(one.error_code for topic in topics for one in topic.partition_responses)


def _is_new(call: _Call) -> bool:
    """Whether a producer's batch was stored, and not found to be there already."""
    return _is_from_client(call) and not call.result.is_duplicate


def _has_records(call: _Call) -> bool:
    """Whether a follower that asks for records from an offset on will get some."""
    log, offset = call.arguments[:2]
    return _is_for_users(call) and offset < log.log_end_offset


def _confirms(call: _Call) -> bool:
    """Whether a follower has got further than the high watermark."""
    return _is_for_users(call) and call.arguments[2] > call.one.log.high_watermark


def _is_stored(call: _Call) -> bool:
    return call.arguments[2] is ErrorCode.NONE


def _is_commit(call: _Call) -> bool:
    return isinstance(call.arguments[1], offset_commit.Request)


def _is_initialized(call: _Call) -> bool:
    is_init = isinstance(call.arguments[0], InitProducer)
    return is_init and call.result.error_code is ErrorCode.NONE


def _is_confirmed(call: _Call) -> bool:
    return call.result is ErrorCode.NONE


def _is_marked(call: _Call) -> bool:
    return call.result is not None and _is_for_users(call)


def _always(_: _Call) -> bool:
    return True


_POINTS: Final[Sequence[tuple[FailpointName, _Point]]] = (
    ("produce.received", _Point(Partition, "append", False, _is_from_client)),
    ("produce.appended", _Point(Log, "append_as_leader", True, _is_new)),
    ("produce.committed", _Point(Acknowledgements, "ready", False, _is_committed)),
    ("replication.sending", _Point(FetchServer, "_records", False, _has_records)),
    ("replication.appended", _Point(Log, "append_as_follower", True, _is_for_users)),
    ("replication.confirmed", _Point(Partition, "follower_fetched", False, _confirms)),
    ("leader.elected", _Point(Partition, "lead", True, _has_new_epoch)),
    ("log.rolled", _Point(Log, "_roll", True, _is_for_users)),
    ("log.truncated", _Point(Log, "truncate_to", True, _is_for_users)),
    ("group.generation_stored", _Point(Rebalance, "_begin_generation", False, _always)),
    ("group.assignment_stored", _Point(Rebalance, "_assignment_stored", False, _is_stored)),
    ("group.offsets_committed", _Point(GroupService, "ask", True, _is_commit)),
    ("transaction.initialized", _Point(TransactionService, "ask", True, _is_initialized)),
    ("transaction.partition_added", _Point(TransactionService, "added", True, _always)),
    ("transaction.partition_added", _Point(TransactionService, "confirm", True, _is_confirmed)),
    ("transaction.decided", _Point(MarkerSender, "send", False, _always)),
    ("transaction.marker_appended", _Point(Partition, "append_marker", True, _is_marked)),
    ("transaction.markers_written", _Point(TransactionShard, "markers_written", False, _always)),
    ("controller.decided", _Point(Quorum, "propose", False, _always)),
    ("controller.committed", _Point(Quorum, "propose", True, _always)),
)


@dataclass(slots=True)
class _Armed:
    """What is to happen at a point.

    Attributes:
        left: how often; None for always.
        skip: how often not, first.
    """

    name: FailpointName
    action: str
    left: int | None
    skip: int


class Failpoints:
    """Those of this process.

    Attributes:
        reached: how often each point was passed since the first was set.
    """

    def __init__(self) -> None:
        self.reached: Counter[str] = Counter()
        self._armed: dict[int, _Armed] = {}
        self._is_installed = False

    def install(self) -> None:
        """Replace the methods at which points are, once."""
        if not self._is_installed:
            self._is_installed = True
            for name, point in _POINTS:
                original = getattr(point.owner, point.method)
                setattr(point.owner, point.method, self._watched(name, point, original))

    def set(
        self, number: int, name: FailpointName, action: str, times: int | None, skip: int
    ) -> None:
        """Have something happen at a point; the number is for `remove`."""
        self.install()
        self._armed[number] = _Armed(name, action, times, skip)

    def remove(self, number: int) -> None:
        """Let nothing more happen."""
        self._armed.pop(number, None)

    def clear(self) -> None:
        """Remove all."""
        self._armed.clear()

    def _watched(
        self, name: FailpointName, point: _Point, original: Callable[..., Any]
    ) -> Callable[..., Any]:
        def pass_by(call: _Call) -> None:
            if point.applies(call):
                self._reach(name)

        if iscoroutinefunction(original):

            @wraps(original)
            async def waiting(one: Any, *arguments: Any, **words: Any) -> Any:
                if not point.is_after:
                    pass_by(_Call(one, arguments, words, None))
                result = await original(one, *arguments, **words)
                if point.is_after:
                    pass_by(_Call(one, arguments, words, result))
                return result

            return waiting

        @wraps(original)
        def calling(one: Any, *arguments: Any, **words: Any) -> Any:
            if not point.is_after:
                pass_by(_Call(one, arguments, words, None))
            result = original(one, *arguments, **words)
            if point.is_after:
                pass_by(_Call(one, arguments, words, result))
            return result

        return calling

    def _reach(self, name: FailpointName) -> None:
        self.reached[name] += 1
        for number, armed in self._armed.items():
            if armed.name != name or armed.left == 0:
                continue
            if armed.skip:
                armed.skip -= 1
                continue
            if armed.left is not None:
                armed.left -= 1
            self._act(number, armed)

    @staticmethod
    def _act(number: int, armed: _Armed) -> None:
        line = f"{reached_line(armed.name, number)}: {armed.action}\n"
        os.write(_STDERR, line.encode())  # not by the logger, which may be silent
        if armed.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif armed.action == "pause":
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            raise FailpointError(f"the test wants an error at {armed.name}")
