"""The controller: on the leader of the metadata quorum, one decision at a time.

`Controller.change` is the only way in which metadata changes. It decides on the applied image,
proposes the records, and returns when they are committed and applied here. Everywhere else it
raises NOT_CONTROLLER; `minikafka.broker.control.forwarder` brings requests to where it works.

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

from ...metadata.brokers import (
    Registration,
    ShutdownProgress,
    check_broker,
    controlled_shutdown,
    fence_brokers,
    register_broker,
    unfence_broker,
)
from ...metadata.decision import Decision, Refusal
from ...metadata.elections import balance_leaders, elect_uncleanly
from ...metadata.heartbeats import BrokerHeartbeats
from ...metadata.records import BrokerRecord, SettingRecord, encode_decision
from ...protocol.errors import ErrorCode
from ...storage.errors import StorageError
from ..quorum.change_error import FORWARDING_FAILURE, ChangeError
from ..quorum.quorum import NotControllerError
from ..system.backoff import Backoff
from .metadata_store import CLUSTER_ID_SETTING, RESOURCE_CLUSTER

if TYPE_CHECKING:
    from ...metadata.replication_rules import ReplicationRules
    from ..quorum.quorum import Quorum
    from ..rpc.client import Loss
    from ..rpc.identity import Hello
    from ..rpc.peers import Peers
    from ..settings.effective import EffectiveSettings
    from ..settings.node import Node
    from ..system.randomness import RandomIds
    from .metadata_store import MetadataStore

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_RETRY_SECONDS_MIN = 0.1
_RETRY_SECONDS_MAX = 1.0


class Controller:
    """Decides about the metadata while this node leads the quorum.

    Args:
        peers: connections to the other nodes; None where there is no cluster.
    """

    def __init__(
        self,
        node: Node,
        settings: EffectiveSettings,
        store: MetadataStore,
        quorum: Quorum,
        ids: RandomIds,
        peers: Peers | None,
    ) -> None:
        self._node = node
        self._settings = settings
        self._store = store
        self._quorum = quorum
        self._ids = ids
        self._peers = peers
        self._lock = trio.Lock()
        session_s = settings.config.broker_session_timeout_ms / 1000
        self._heartbeats = BrokerHeartbeats(session_s)
        self._wake = trio.Event()
        if peers is not None:
            peers.on_lost.append(self._broker_lost)
            peers.on_connected.append(self._process_found)

    @property
    def leader_id(self) -> int | None:
        """The active controller, as far as this node knows."""
        return self._quorum.leader_id

    def _rules(self) -> ReplicationRules:
        return self._settings.replication_rules()

    @property
    def is_active(self) -> bool:
        """True when this node decides: it leads, and has applied what came before it did."""
        return self._quorum.is_leader

    # --- changes -------------------------------------------------------------------------------

    async def change(self, decide: Callable[[], Decision[_T]]) -> _T:
        """Decide on the current image, make the records durable, apply them; returns the result.

        One change at a time, and none is abandoned half-way by a cancellation.

        Raises:
            ChangeError: this node is not the active controller, or was not long enough, or the
                disk failed.
        """
        quorum = self._quorum
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

    async def register(self, registration: Registration) -> BrokerRecord | Refusal:
        """A broker joins or comes back; see `register_broker`."""
        broker_id = registration.broker_id
        old = self._store.image.brokers.get(broker_id)

        def decide() -> Decision[BrokerRecord | Refusal]:
            is_old_alive = self._heartbeats.is_alive(broker_id, trio.current_time())
            return register_broker(
                self._store.image,
                registration,
                self._rules(),
                is_old_alive=is_old_alive and broker_id != self._node.node_id,
                is_caught_up=self._node.is_alone,
            )

        result = await self.change(decide)
        if isinstance(result, BrokerRecord):
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
        refusal = check_broker(self._store.image, broker_id, broker_epoch)
        if refusal is not None:
            return refusal
        quorum, rules = self._quorum, self._rules()
        now = trio.current_time()
        was_in_service = self._heartbeats.is_alive(broker_id, now) and not (
            self._store.image.is_fenced(broker_id)
        )
        is_caught_up = self._heartbeats.contact(
            broker_id, applied_index, quorum.committed_index, now
        )
        self._watch(broker_id)
        if wants_to_stop:
            progress = await self.change(
                lambda: controlled_shutdown(
                    self._store.image, broker_id, broker_epoch, rules, is_forced=is_forced
                )
            )
            if isinstance(progress, Refusal):
                return progress
            return progress._replace(has_majority=self._is_sure())
        if is_caught_up and self._store.image.is_fenced(broker_id):
            refusal = await self.change(
                lambda: unfence_broker(self._store.image, broker_id, broker_epoch, rules)
            )
            if refusal is None:
                logger.info("broker %d is in service", broker_id)
        is_sure = self._is_sure()
        return refusal or ShutdownProgress(False, 0, was_in_service and is_sure, is_sure)

    def _is_sure(self) -> bool:
        """Whether most voters were in contact so recently that none of them elects another one.

        A controller that was cut off or paused must not assure brokers (itself above all) that they
        still lead.
        """
        quorum = self._quorum
        election_s = quorum.config.election_timeout_s
        contacts = [one.heard_ago_s for one in quorum.statistics().voters]
        recently = [ago_s for ago_s in contacts if ago_s is not None and ago_s < election_s]
        return len(recently) > len(quorum.voter_ids) // 2

    # --- watching brokers ----------------------------------------------------------------------

    async def run(self) -> None:
        """Do what an active controller does, whenever this node is one, until cancelled."""
        quorum = self._quorum
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
        return self.is_active and self._quorum.epoch == epoch

    async def _lead(self) -> None:
        logger.info(
            "node %d is the active controller, epoch %d", self._node.node_id, self._quorum.epoch
        )
        now = trio.current_time()
        brokers = self._store.image.brokers.values()
        in_service = [one.broker_id for one in brokers if not one.is_fenced]
        self._heartbeats.begin([one for one in in_service if one != self._node.node_id], now)
        for one in list(brokers):
            self._watch(one.broker_id)
            if self._peers is not None and one.broker_id != self._node.node_id:
                hello = self._peers.client(one.broker_id).hello
                if hello is not None:
                    self._process_found(hello)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._expire_sessions)
            nursery.start_soon(self._settle)
            if self._settings.config.auto_leader_rebalance_enable and self._node.is_clustered:
                nursery.start_soon(self._balance)

    async def _settle(self) -> None:
        """Do what a new controller finds undone."""
        if self._node.is_clustered and not self._store.recorded_cluster_id:
            cluster_id = self._store.cluster_id or self._ids.cluster_id()
            record = SettingRecord(RESOURCE_CLUSTER, "", CLUSTER_ID_SETTING, cluster_id)
            await self._persist(lambda: Decision([record], None))
        await self._persist(lambda: elect_uncleanly(self._store.image, self._rules()))

    async def _persist(self, decide: Callable[[], Decision[_T]]) -> None:
        """Change something however often it fails, as long as this node is the controller."""
        backoff = Backoff(_RETRY_SECONDS_MIN, _RETRY_SECONDS_MAX, self._ids.rng.random)
        while True:
            try:
                await self.change(decide)
                return
            except ChangeError as error:
                logger.warning("%s", error)
            await trio.sleep(backoff.next_pause())

    def _watch(self, broker_id: int) -> None:
        """Keep a connection to a broker, to notice when its process is gone."""
        if broker_id != self._node.node_id and self._peers is not None:
            self._peers.client(broker_id)
        self._wake.set()

    def _broker_lost(self, loss: Loss) -> None:
        """A connection to a node ended, or could not be made."""
        registered = self._store.image.brokers.get(loss.node_id)
        # An attempt that was refused before the present process listened says nothing about it.
        is_this_process = registered is not None and loss.incarnation in (
            b"",
            registered.incarnation_id,
        )
        if loss.is_gone and is_this_process and self.is_active:
            self._heartbeats.lost(loss.node_id, trio.current_time())
            self._wake.set()

    def _process_found(self, hello: Hello) -> None:
        """A process answers where a broker was; if it is another one, the old one is gone."""
        registered = self._store.image.brokers.get(hello.node_id)
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
            overdue = [one for one in self._heartbeats.expire(now) if one != self._node.node_id]
            if overdue:
                await self._fence(overdue)

    async def _fence(self, broker_ids: Sequence[int]) -> None:
        try:
            fenced = await self.change(
                lambda: fence_brokers(self._store.image, broker_ids, self._rules())
            )
        except ChangeError as error:
            logger.warning("cannot fence %s: %s", broker_ids, error)
            return
        for broker_id in broker_ids:
            self._heartbeats.forget(broker_id)
        for broker_id in fenced:
            logger.warning("broker %d is out of service: it is silent or gone", broker_id)

    async def _balance(self) -> None:
        while True:
            await trio.sleep(self._settings.config.leader_imbalance_check_interval_seconds)
            try:
                moves = await self.change(lambda: balance_leaders(self._store.image, self._rules()))
            except ChangeError as error:
                logger.warning("%s", error)
                continue
            if moves:
                logger.info("asked %d leaders to hand over to preferred replicas", moves)
