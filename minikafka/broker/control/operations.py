"""What brokers ask of the active controller; `rpc.operations` declares the messages.

Every answer carries the index that the asking node has to apply to see what the answer speaks of.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ...metadata.alter_partition import IsrProposal, IsrResult, alter_partitions
from ...metadata.brokers import Registration
from ...metadata.decision import Decision, Refusal
from ...metadata.producer_ids import allocate_producer_ids_checked
from ...protocol.errors import ErrorCode
from ...replication import IsrMember
from ..quorum.change_error import ChangeError
from ..rpc import operations
from ..rpc.codec import Operation, Reply
from ..rpc.errors import RpcFailure
from ..rpc.operations import NOT_CONTROLLER, ControllerAnswer

if TYPE_CHECKING:
    from ..quorum.quorum import Quorum
    from ..rpc.server import RpcServer
    from ..settings.effective import EffectiveSettings
    from .controller import Controller
    from .metadata_store import MetadataStore

_Request = TypeVar("_Request")
_Answer = TypeVar("_Answer")
_T = TypeVar("_T")


class Operations:
    """Answers on the active controller."""

    def __init__(
        self,
        controller: Controller,
        store: MetadataStore,
        settings: EffectiveSettings,
        quorum: Quorum,
    ) -> None:
        self._controller = controller
        self._store = store
        self._settings = settings
        self._quorum = quorum
        self._handlers: dict[Operation[Any, ControllerAnswer[Any]], _Handler] = {
            operations.REGISTER: self._register,
            operations.HEARTBEAT: self._heartbeat,
            operations.ALTER_PARTITIONS: self._alter_partitions,
            operations.ALLOCATE_PRODUCER_IDS: self._allocate_producer_ids,
        }

    def register(self, server: RpcServer) -> None:
        for operation in self._handlers:
            server.register(operation, partial(self._serve, operation))

    async def answer(
        self, operation: Operation[_Request, ControllerAnswer[_Answer]], request: _Request
    ) -> _Answer:
        """Answer a broker that is in this process.

        Raises:
            ChangeError: refused, or this node is not the controller, or the disk failed.
        """
        answer: _Answer = await self._handlers[operation](request)
        return answer

    async def _serve(
        self,
        operation: Operation[Any, ControllerAnswer[Any]],
        node_id: int,
        request: Any,
        attachments: Sequence[memoryview],
    ) -> Reply[ControllerAnswer[Any]]:
        if not self._controller.is_active or attachments:
            raise RpcFailure(NOT_CONTROLLER, "this node is not the controller")
        if request.broker_id != node_id:
            raise RpcFailure("Malformed", f"{operation.name}: a node speaks for another one")
        code, message = ErrorCode.NONE, None
        try:
            result = await self.answer(operation, request)
        except ChangeError as error:
            if error.error_code == ErrorCode.NOT_CONTROLLER:
                raise RpcFailure(NOT_CONTROLLER, error.message) from None
            code, result, message = error.error_code, None, error.message
        return Reply(ControllerAnswer(code, result, message, self._quorum.applied_index))

    # --- one after the other -------------------------------------------------------------------

    async def _register(self, request: operations.Register) -> operations.Registered:
        broker = await self._controller.register(Registration(**request._asdict()))
        return operations.Registered(_granted(broker).broker_epoch)

    async def _heartbeat(self, request: operations.Heartbeat) -> operations.HeartbeatAnswer:
        progress = await self._controller.heartbeat(
            request.broker_id,
            request.broker_epoch,
            request.applied_index,
            wants_to_stop=request.wants_to_stop,
            is_forced=request.is_forced,
        )
        return operations.HeartbeatAnswer(*_granted(progress))

    async def _alter_partitions(
        self, request: operations.AlterPartitions
    ) -> operations.AlterPartitionsResult:
        proposals = [
            IsrProposal(
                one.topic_id,
                one.partition,
                one.leader_epoch,
                one.partition_epoch,
                tuple(IsrMember(*replica) for replica in one.in_sync_replicas),
                one.leader,
            )
            for one in request.partitions
        ]

        def decide() -> Decision[list[IsrResult] | Refusal]:
            return alter_partitions(
                self._store.image,
                request.broker_id,
                request.broker_epoch,
                proposals,
                self._settings.replication_rules(),
            )

        return operations.AlterPartitionsResult(
            tuple(map(_altered, _granted(await self._controller.change(decide))))
        )

    async def _allocate_producer_ids(
        self, request: operations.AllocateProducerIds
    ) -> operations.ProducerIds:
        found = await self._controller.change(
            lambda: allocate_producer_ids_checked(
                self._store.image, request.broker_id, request.broker_epoch
            )
        )
        allocated = _granted(found)
        return operations.ProducerIds(allocated.start, allocated.stop)


_Handler = Callable[[Any], Awaitable[Any]]


def _granted(result: _T | Refusal) -> _T:
    if isinstance(result, Refusal):
        raise ChangeError(*result)
    return result


def _altered(one: IsrResult) -> operations.AlteredPartition:
    code, message = one.result if isinstance(one.result, Refusal) else (ErrorCode.NONE, None)
    return operations.AlteredPartition(one.topic_id, one.partition, code, message)
