"""acks=all: a Produce request waits until its records are committed in all partitions.

No task waits. The connection continues with the next requests, and the answer is sent in the call
that moves the last high watermark.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages import produce
from ..replicas.partition import Partition
from .later_answer import LaterAnswer

_WORDS = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "another broker leads now; the records may be lost",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (
        "the records are appended, but fewer than min.insync.replicas are now in sync"
    ),
    ErrorCode.REQUEST_TIMED_OUT: "the records are appended, but not on all in-sync replicas yet",
}


class Acknowledgements(LaterAnswer):
    """The answer to a Produce request; call `begin` when all its partitions are added."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[_Acknowledgement, Partition] = {}

    def add(self, partition: Partition, offset: int, answer: produce.PartitionResponse) -> None:
        """Wait until everything below ``offset`` is committed; call it right after the append."""
        one = _Acknowledgement(self, answer)
        self._waiting[one] = partition
        partition.wait_for_commit(one, offset)

    def begin(self, response: produce.Response, deadline: float) -> None:
        """Answer with ``response``, which has the partitions' answers, when all are known.

        At ``deadline`` (monotonic seconds) partitions that are late get REQUEST_TIMED_OUT.
        """
        self.response = response
        self.deadline = deadline
        if not self._waiting:
            self.ready()

    def settled(self, one: _Acknowledgement) -> None:
        del self._waiting[one]
        if not self._waiting and self.response is not None:
            self.ready()

    def give_up(self) -> None:
        for one, partition in list(self._waiting.items()):
            partition.commits.forget(one)
            one.settle(ErrorCode.REQUEST_TIMED_OUT)


class _Acknowledgement:
    __slots__ = ("_answer", "_request")

    def __init__(self, request: Acknowledgements, answer: produce.PartitionResponse) -> None:
        self._request = request
        self._answer = answer

    def settle(self, error_code: ErrorCode) -> None:
        if error_code is not ErrorCode.NONE:
            refuse(self._answer, error_code)
        self._request.settled(self)


def refuse(answer: produce.PartitionResponse, error_code: ErrorCode) -> None:
    """Say of appended records why it is unknown whether they will survive."""
    answer.error_code = error_code
    answer.base_offset = -1
    answer.error_message = _WORDS[error_code]
