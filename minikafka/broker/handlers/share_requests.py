"""What ShareFetch and ShareAcknowledge have in common: acknowledgements, and where leaders are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...coordinator.share.share_partition import AcknowledgementBatch, AcknowledgeType
from ...protocol.errors import ErrorCode
from ...security.acl import Operation, ResourceType
from ..coordinators.runtime import PendingReply
from ..replicas.partition import PartitionError
from ..shares.sessions import PARTITIONS_PER_SESSION_MAX, SessionKey
from ..system.pace import Pace
from .current_leader import LEADER_ELSEWHERE, CurrentLeader, current_leader, endpoints_of

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

NO_LEADER_HINT = CurrentLeader(0, 0)
"""What these responses say where there is nothing to say."""


class _Batch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class Asked(NamedTuple):
    """What a request says about one partition."""

    topic_id: bytes
    number: int
    batches: tuple[AcknowledgementBatch, ...]

    @property
    def place(self) -> tuple[bytes, int]:
        return self.topic_id, self.number


async def asked_partitions(broker: Broker, topics: Iterable[Any]) -> list[Asked]:
    """The partitions of a request, and what it acknowledges."""
    pace = Pace(broker.clock.monotonic)
    asked: list[Asked] = []
    for topic in topics:
        for one in topic.partitions:
            batches = await pace.every(_as_batch(batch) for batch in one.acknowledgement_batches)
            asked.append(Asked(topic.topic_id, one.partition_index, tuple(batches)))
            await pace.step()
    return asked


def _as_batch(batch: _Batch) -> AcknowledgementBatch:
    return AcknowledgementBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types)


def problem_of(group_id: str | None, member_id: str | None, asked: Sequence[Asked]) -> str | None:
    """What is wrong with a request, whatever it asks for; None if nothing is."""
    if len(asked) > PARTITIONS_PER_SESSION_MAX:
        return f"A request names at most {PARTITIONS_PER_SESSION_MAX} partitions."
    if not group_id:
        return "The group id must not be empty."
    return None if member_id else "The member id must not be empty."


def renews(asked: Iterable[Asked]) -> bool:
    """Whether a lock is to be renewed."""
    return any(AcknowledgeType.RENEW in batch.types for one in asked for batch in one.batches)


def right_to_read(broker: Broker, context: RequestContext) -> Callable[[bytes], bool] | None:
    """Says which topics, by id, a client may read; None without an authorizer."""
    authorization = broker.authorization
    if authorization is None:
        return None

    def may_read(topic_id: bytes) -> bool:
        topic = broker.image.topics_by_id.get(topic_id)
        return topic is None or authorization.allows(
            context, Operation.READ, ResourceType.TOPIC, topic.name
        )

    return may_read


async def acknowledge(
    broker: Broker,
    key: SessionKey,
    asked: Sequence[Asked],
    may_read: Callable[[bytes], bool] | None,
) -> dict[tuple[bytes, int], ErrorCode]:
    """Have what a member says about records stored; the outcome for each partition."""
    outcomes: dict[tuple[bytes, int], ErrorCode] = {}
    pending: dict[tuple[bytes, int], PendingReply] = {}
    for one in asked:
        if not one.batches:
            continue
        if may_read is not None and not may_read(one.topic_id):
            outcomes[one.place] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            continue
        try:
            running = await broker.shares.get(key.group_id, one.topic_id, one.number)
        except PartitionError as error:
            outcomes[one.place] = ErrorCode(error.error_code)
            continue
        pending[one.place] = broker.shares.begin_acknowledge(running, key.member_id, one.batches)
    for place, reply in pending.items():
        outcomes[place] = await reply.wait()
    return outcomes


def leader_hint(broker: Broker, place: tuple[bytes, int], code: ErrorCode) -> CurrentLeader:
    """The leader to name beside an error."""
    if code not in LEADER_ELSEWHERE:
        return NO_LEADER_HINT
    topic_id, index = place
    return current_leader(broker, "", topic_id, index)


def endpoints(
    broker: Broker, context: RequestContext, node_endpoint: type[Any], leaders: Iterable[int]
) -> list[Any]:
    """Where these leaders are, in the words of a response."""
    return [
        node_endpoint(node_id=one.broker_id, host=one.host, port=one.port, rack=one.rack)
        for one in endpoints_of(broker, context, leaders)
    ]
