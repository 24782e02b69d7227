"""acks=all: a Produce request's wait until what it appended is committed, in all its partitions.

Nothing waits in a task. The connection goes on with the requests behind it, and the answer leaves
when the last high watermark has passed: in the call that moved it.
"""

from __future__ import annotations

from ..protocol.errors import ErrorCode
from ..protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from .answers import LaterAnswer
from .partition import Partition

_WORDS = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "another broker leads now; the records may be lost, or not",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (
        "the records are appended, but fewer than min.insync.replicas are in sync by now"
    ),
    ErrorCode.REQUEST_TIMED_OUT: "the records are appended, but not on all in-sync replicas yet",
}


class Acknowledgements(LaterAnswer):
    """What a Produce request waits for; `begin` it when all its partitions are added."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[_Acknowledgement, Partition] = {}

    def add(self, partition: Partition, offset: int, answer: PartitionProduceResponse) -> None:
        """Wait until everything below ``offset`` is committed; right after the append."""
        one = _Acknowledgement(self, answer)
        self._waiting[one] = partition
        partition.wait_for_commit(one, offset)

    def begin(self, response: ProduceResponse, deadline: float) -> None:
        """Answer with a response when all outcomes are known; what is late is REQUEST_TIMED_OUT.

        Args:
            response: holds the answers of the partitions.
            deadline: monotonic seconds.
        """
        self.response = response
        self.deadline = deadline
        if not self._waiting:
            self.ready()

    def settled(self, one: _Acknowledgement) -> None:
        """One partition's outcome is known."""
        del self._waiting[one]
        if not self._waiting and self.response is not None:
            self.ready()

    def give_up(self) -> None:
        """The time is over, or the client is gone."""
        for one, partition in list(self._waiting.items()):
            partition.commits.forget(one)
            one.settle(ErrorCode.REQUEST_TIMED_OUT)


class _Acknowledgement:
    """The wait for one partition."""

    __slots__ = ("_answer", "_request")

    def __init__(self, request: Acknowledgements, answer: PartitionProduceResponse) -> None:
        self._request = request
        self._answer = answer

    def settle(self, error_code: ErrorCode) -> None:
        if error_code is not ErrorCode.NONE:
            self._answer.error_code = error_code
            self._answer.base_offset = -1
            self._answer.error_message = _WORDS[error_code]
        self._request.settled(self)
