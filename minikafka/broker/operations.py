"""What brokers ask of the active controller, as it travels: plain fields, checked when they come.

Every answer is ``[error code, result]`` and, on the wire, the index that the asking node has to
apply to see what the answer speaks of.

=======================  =============================================  ===========================
operation                fields                                         result
=======================  =============================================  ===========================
register                 those of `Registration`                        broker epoch
heartbeat                broker id, broker epoch, applied index,        may stop, leaders remaining
                         wants to stop, is forced
alter-partitions         broker id, broker epoch, proposals: topic id,  (topic id, partition, error
                         partition, leader epoch, partition epoch,      code, message) of each
                         ISR as (broker id, broker epoch), leader
allocate-producer-ids    broker id, broker epoch                        first, one behind the last
=======================  =============================================  ===========================

Refusals have a text as their result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..metadata.brokers import Registration
from ..metadata.decision import Decision, Refusal
from ..metadata.image import BrokerImage
from ..metadata.isr_changes import IsrMember, IsrProposal, IsrResult, alter_partitions
from ..metadata.producer_ids import allocate_producer_ids_checked
from ..protocol.errors import ErrorCode
from .change_error import ChangeError
from .forwarding import NOT_CONTROLLER

if TYPE_CHECKING:
    from .broker import Broker

REGISTER = "register"
HEARTBEAT = "heartbeat"
ALTER_PARTITIONS = "alter-partitions"
ALLOCATE_PRODUCER_IDS = "allocate-producer-ids"

PROPOSALS_MAX = 10_000

_Answer = tuple[ErrorCode, Any]
_Operation = Callable[[Any], Awaitable[_Answer]]


class MalformedOperation(Exception):
    """The fields of an operation are not what they have to be."""


class Operations:
    """Answers on the active controller."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.by_name: dict[str, _Operation] = {
            REGISTER: self._register,
            HEARTBEAT: self._heartbeat,
            ALTER_PARTITIONS: self._alter_partitions,
            ALLOCATE_PRODUCER_IDS: self._allocate_producer_ids,
        }

    async def answer(self, operation: str, fields: Any) -> tuple[ErrorCode, Any]:
        """Answer a broker that is in this process.

        Raises:
            ChangeError: this node is not the controller, or the disk failed.
        """
        return await self.by_name[operation](fields)

    async def serve(
        self, operation: str, node_id: int, fields: Any, attachments: Sequence[memoryview]
    ) -> tuple[Any, Sequence[Any]]:
        """Answer another node."""
        from .rpc import RpcFailure

        broker = self._broker
        if not broker.controller.is_active or attachments:
            raise RpcFailure(NOT_CONTROLLER, f"node {broker.node_id} is not the controller")
        try:
            if not isinstance(fields, tuple) or fields[:1] != (node_id,):
                raise MalformedOperation("a node speaks for another one")
            code, result = await self.by_name[operation](fields)
        except MalformedOperation as error:
            raise RpcFailure("Malformed", f"{operation}: {error}") from None
        except ChangeError as error:
            if error.error_code == ErrorCode.NOT_CONTROLLER:
                raise RpcFailure(NOT_CONTROLLER, error.message) from None
            code, result = error.error_code, error.message
        return [int(code), result, broker.quorum.applied_index], ()

    # --- one after the other -------------------------------------------------------------------

    async def _register(self, fields: Any) -> _Answer:
        match fields:
            case (
                int(),
                bytes(),
                str(),
                int(),
                str(),
                int(),
                str() | None,
                int(),
                [*listeners],
                [*features],
                *_,
            ):
                registration = Registration(*fields[:8])._replace(
                    listeners=tuple(_row(one, str, str, int) for one in listeners),
                    features=tuple(_row(one, str, int, int) for one in features),
                )
            case _:
                raise MalformedOperation("no registration")
        result = await self._broker.controller.register(registration)
        if isinstance(result, BrokerImage):
            return ErrorCode.NONE, result.broker_epoch
        return result

    async def _heartbeat(self, fields: Any) -> _Answer:
        match fields:
            case (
                int(broker_id),
                int(broker_epoch),
                int(applied_index),
                bool(wants_to_stop),
                bool(is_forced),
                *_,
            ):
                pass
            case _:
                raise MalformedOperation("no heartbeat")
        result = await self._broker.controller.heartbeat(
            broker_id,
            broker_epoch,
            applied_index,
            wants_to_stop=wants_to_stop,
            is_forced=is_forced,
        )
        if isinstance(result, Refusal):
            return result
        return ErrorCode.NONE, tuple(result)

    async def _alter_partitions(self, fields: Any) -> _Answer:
        match fields:
            case (int(broker_id), int(broker_epoch), [*proposals], *_) if (
                len(proposals) <= PROPOSALS_MAX
            ):
                wanted = [_proposal(one) for one in proposals]
            case _:
                raise MalformedOperation("no proposals")
        broker = self._broker

        def decide() -> Decision[list[IsrResult] | Refusal]:
            return alter_partitions(
                broker.image, broker_id, broker_epoch, wanted, broker.replication_rules()
            )

        results = await broker.change(decide)
        if isinstance(results, Refusal):
            return results
        return ErrorCode.NONE, [
            (topic_id, partition, int(result.error_code), result.message)
            if isinstance(result, Refusal)
            else (topic_id, partition, 0, None)
            for topic_id, partition, result in results
        ]

    async def _allocate_producer_ids(self, fields: Any) -> _Answer:
        match fields:
            case (int(broker_id), int(broker_epoch), *_):
                pass
            case _:
                raise MalformedOperation("no broker")
        broker = self._broker
        result = await broker.change(
            lambda: allocate_producer_ids_checked(broker.image, broker_id, broker_epoch)
        )
        if isinstance(result, Refusal):
            return result
        return ErrorCode.NONE, (result.start, result.stop)


def _proposal(fields: object) -> IsrProposal:
    topic_id, partition, leader_epoch, partition_epoch, members, leader = _row(
        fields, bytes, int, int, int, Sequence, int
    )
    in_sync = tuple(IsrMember(*_row(one, int, int)) for one in members)
    return IsrProposal(topic_id, partition, leader_epoch, partition_epoch, in_sync, leader)


def _row(fields: object, *kinds: type) -> tuple[Any, ...]:
    """The first fields, of certain types; a newer node may send more of them."""
    if isinstance(fields, tuple | list):
        row = tuple(cast("Sequence[object]", fields))[: len(kinds)]
        if len(row) == len(kinds) and all(map(isinstance, row, kinds)):
            return row
    raise MalformedOperation(f"fields {fields!r:.100}")
