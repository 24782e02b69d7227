"""The controller: on the leader of the metadata quorum, one decision at a time.

`Controller.change` is the only way in which metadata changes. It decides on the applied image,
proposes the records, and returns when they are committed and applied here. Everywhere else it
raises NOT_CONTROLLER; `minikafka.broker.forwarding` brings requests to where it works.

While it is active it watches the brokers: by their heartbeats, and by a connection to each. When
such a connection ends and the machine refuses another, the broker's process is gone, and it is
fenced at once; all that are found gone together are fenced in one decision. That is only speed:
a broker that was fenced by mistake shows itself and is unfenced.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import trio

from ..metadata.broker_epochs import check_broker
from ..metadata.brokers import Registration, register_broker
from ..metadata.decision import Decision, Refusal
from ..metadata.elections import balance_leaders, elect_uncleanly
from ..metadata.fencing import (
    ShutdownProgress,
    controlled_shutdown,
    fence_brokers,
    unfence_broker,
)
from ..metadata.heartbeats import BrokerHeartbeats
from ..metadata.image import BrokerImage
from ..metadata.payloads import encode_decision
from ..metadata.records import SettingRecord
from ..protocol.errors import ErrorCode
from ..storage.errors import StorageError
from .change_error import FORWARDING_FAILURE, ChangeError
from .metadata_store import CLUSTER_ID_SETTING, RESOURCE_CLUSTER
from .quorum import NotControllerError

if TYPE_CHECKING:
    from .broker import Broker
    from .rpc import Hello, Loss

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_RETRY_SECONDS = 0.5


class Controller:
    """Decides, where this node leads the quorum."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lock = trio.Lock()
        self._heartbeats = BrokerHeartbeats(broker.config.broker_session_timeout_ms / 1000)
        self._wake = trio.Event()

    @property
    def leader_id(self) -> int | None:
        """The active controller, as far as this node knows."""
        return self._broker.quorum.leader_id

    @property
    def is_active(self) -> bool:
        """True when this node decides: it leads, and has applied what came before it did."""
        return self._broker.quorum.is_leader

    # --- changes -------------------------------------------------------------------------------

    async def change(self, decide: Callable[[], Decision[_T]]) -> _T:
        """Decide on the current image, make the records durable, apply them; returns the result.

        One change at a time, and none is abandoned half-way by a cancellation.

        Raises:
            ChangeError: this node is not the active controller, or was not long enough, or the
                disk failed.
        """
        quorum = self._broker.quorum
        forwarding_failure = FORWARDING_FAILURE.get()
        if forwarding_failure is not None:
            raise forwarding_failure
        async with self._lock:
            if not quorum.is_leader:
                failure = quorum.failure
                if failure is not None and quorum.leader_id is None:
                    raise ChangeError(ErrorCode(failure.error_code), str(failure))
                raise NotControllerError(quorum.leader_id)
            decision = decide()
            if decision.records:
                with trio.CancelScope(shield=True):
                    try:
                        await quorum.propose(encode_decision(decision.records))
                    except StorageError as error:
                        raise ChangeError(ErrorCode(error.error_code), str(error)) from error
            return decision.result

    # --- what brokers ask for ------------------------------------------------------------------

    async def register(self, registration: Registration) -> BrokerImage | Refusal:
        """A broker joins or comes back; see `register_broker`."""
        broker = self._broker
        broker_id = registration.broker_id
        old = broker.image.brokers.get(broker_id)

        def decide() -> Decision[BrokerImage | Refusal]:
            is_old_alive = self._heartbeats.is_alive(broker_id, trio.current_time())
            return register_broker(
                broker.image,
                registration,
                broker.replication_rules(),
                is_old_alive=is_old_alive and broker_id != broker.node_id,
                is_caught_up=broker.is_alone,
            )

        result = await self.change(decide)
        if isinstance(result, BrokerImage):
            if old is None or old.broker_epoch != result.broker_epoch:
                self._heartbeats.forget(broker_id)
                logger.info(
                    "broker %d registered with epoch %d: %s:%d",
                    *(broker_id, result.broker_epoch, result.host, result.port),
                )
            self._watch(broker_id)
        return result

    async def heartbeat(
        self,
        broker_id: int,
        broker_epoch: int,
        applied_index: int,
        *,
        wants_to_stop: bool,
        is_forced: bool,
    ) -> ShutdownProgress | Refusal:
        """A broker lives, and perhaps wants to stop.

        One that is fenced and has applied what it should is unfenced.

        Args:
            broker_id: who.
            broker_epoch: of its registration.
            applied_index: how far it has applied the metadata log.
            wants_to_stop: it is shutting down; the answer says when it may stop.
            is_forced: it cannot wait any longer.
        """
        broker = self._broker
        refusal = check_broker(broker.image, broker_id, broker_epoch)
        if refusal is not None:
            return refusal
        quorum, rules = broker.quorum, broker.replication_rules()
        now = trio.current_time()
        was_in_service = self._heartbeats.is_alive(broker_id, now) and not (
            broker.image.is_fenced(broker_id)
        )
        is_caught_up = self._heartbeats.contact(
            broker_id, applied_index, quorum.committed_index, now
        )
        self._watch(broker_id)
        if wants_to_stop:
            return await self.change(
                lambda: controlled_shutdown(
                    broker.image, broker_id, broker_epoch, rules, is_forced=is_forced
                )
            )
        if is_caught_up and broker.image.is_fenced(broker_id):
            refusal = await self.change(
                lambda: unfence_broker(broker.image, broker_id, broker_epoch, rules)
            )
            if refusal is None:
                logger.info("broker %d is in service", broker_id)
        return refusal or ShutdownProgress(False, 0, was_in_service and self._is_sure())

    def _is_sure(self) -> bool:
        """Whether most voters were heard so recently that none of them elects another controller.

        One that was cut off or paused must not tell brokers (itself above all) that they lead.
        """
        quorum = self._broker.quorum
        election_s = quorum.config.election_timeout_s
        heard = [one.heard_ago_s for one in quorum.statistics().voters]
        recently = [ago_s for ago_s in heard if ago_s is not None and ago_s < election_s]
        return len(recently) >= quorum.config.majority

    # --- watching brokers ----------------------------------------------------------------------

    async def run(self) -> None:
        """Do what an active controller does, whenever this node is one, until cancelled."""
        quorum = self._broker.quorum
        while True:
            if quorum.is_leader:
                epoch = quorum.epoch
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._lead)
                    while self._leads_in(epoch):
                        await quorum.wait_changed()
                    nursery.cancel_scope.cancel()
            else:
                await quorum.wait_changed()

    def _leads_in(self, epoch: int) -> bool:
        return self.is_active and self._broker.quorum.epoch == epoch

    async def _lead(self) -> None:
        broker = self._broker
        logger.info(
            "node %d is the active controller, epoch %d", broker.node_id, broker.quorum.epoch
        )
        now = trio.current_time()
        brokers = broker.image.brokers.values()
        in_service = [one.broker_id for one in brokers if not one.is_fenced]
        self._heartbeats.begin([one for one in in_service if one != broker.node_id], now)
        for one in list(brokers):
            self._watch(one.broker_id)
            if broker.interconnect is not None and one.broker_id != broker.node_id:
                hello = broker.peers.client(one.broker_id).hello
                if hello is not None:
                    self.process_found(hello)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._expire_sessions)
            nursery.start_soon(self._settle)
            if broker.config.auto_leader_rebalance_enable and broker.topology.is_clustered:
                nursery.start_soon(self._balance)

    async def _settle(self) -> None:
        """Do what a new controller finds undone."""
        broker = self._broker
        if broker.topology.is_clustered and not broker.store.recorded_cluster_id:
            cluster_id = broker.store.cluster_id or broker.new_cluster_id()
            record = SettingRecord(RESOURCE_CLUSTER, "", CLUSTER_ID_SETTING, cluster_id)
            await self._persist(lambda: Decision([record], None))
        await self._persist(lambda: elect_uncleanly(broker.image, broker.replication_rules()))

    async def _persist(self, decide: Callable[[], Decision[_T]]) -> None:
        """Change something however often it fails, as long as this node is the controller."""
        while True:
            try:
                await self.change(decide)
                return
            except ChangeError as error:
                logger.warning("%s", error)
            await trio.sleep(_RETRY_SECONDS)

    def _watch(self, broker_id: int) -> None:
        """Keep a connection to a broker, to notice when its process is gone."""
        broker = self._broker
        if broker_id != broker.node_id and broker.interconnect is not None:
            broker.interconnect.peers.client(broker_id)
        self._wake.set()

    def broker_lost(self, loss: Loss) -> None:
        """A connection to a node ended, or could not be made."""
        registered = self._broker.image.brokers.get(loss.node_id)
        # An attempt that was refused before the present process listened says nothing about it.
        is_this_process = registered is not None and loss.incarnation in (
            b"",
            registered.incarnation_id,
        )
        if loss.is_gone and is_this_process and self.is_active:
            self._heartbeats.lost(loss.node_id, trio.current_time())
            self._wake.set()

    def process_found(self, hello: Hello) -> None:
        """This is who answers where a broker was; when it is another process, that one is gone."""
        registered = self._broker.image.brokers.get(hello.node_id)
        if registered is not None and registered.incarnation_id != hello.incarnation:
            self._heartbeats.lost(hello.node_id, trio.current_time())
            self._wake.set()

    async def _expire_sessions(self) -> None:
        while True:
            with trio.move_on_at(self._heartbeats.deadline() or float("inf")):
                await self._wake.wait()
            self._wake = trio.Event()
            # Several processes that die together are noticed within one turn of the event loop.
            await trio.lowlevel.checkpoint()
            now = trio.current_time()
            # A broker in this process lives as long as this is executed.
            overdue = [one for one in self._heartbeats.expire(now) if one != self._broker.node_id]
            if overdue:
                await self._fence(overdue)

    async def _fence(self, broker_ids: Sequence[int]) -> None:
        broker = self._broker
        try:
            fenced = await self.change(
                lambda: fence_brokers(broker.image, broker_ids, broker.replication_rules())
            )
        except ChangeError as error:
            logger.warning("cannot fence %s: %s", broker_ids, error)
            return
        for broker_id in broker_ids:
            self._heartbeats.forget(broker_id)
        for broker_id in fenced:
            logger.warning("broker %d is out of service: it is silent or gone", broker_id)

    async def _balance(self) -> None:
        broker = self._broker
        while True:
            await trio.sleep(broker.config.leader_imbalance_check_interval_seconds)
            try:
                moves = await self.change(
                    lambda: balance_leaders(broker.image, broker.replication_rules())
                )
            except ChangeError as error:
                logger.warning("%s", error)
                continue
            if moves:
                logger.info("asked %d leaders to hand over to preferred replicas", moves)
