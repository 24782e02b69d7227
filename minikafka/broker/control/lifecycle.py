"""A broker's life in its cluster: it registers, sends heartbeats, serves, hands over, and leaves.

====================  ==========================================================================
state                 left by
====================  ==========================================================================
unregistered          `register` on the active controller (again and again until it answers)
fenced                the first heartbeat after it has applied the metadata log: unfenced
in service            a heartbeat that is refused (it was taken for dead, or unregistered): it
                      registers again; `leave`: it hands over what it leads
stopping              the controller says that it may stop, or the time is up
====================  ==========================================================================

The broker epoch of a clean stop is written down, so that the next registration can say that nothing
was lost (KIP-966).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio

from ...consensus.follower import SupersededLog
from ...protocol.errors import ErrorCode
from ...storage.checked_file import decode_checked, encode_checked
from ...storage.errors import LogError, StorageError
from ..quorum.change_error import ChangeError
from ..rpc import operations
from ..system.start_error import StartError

if TYPE_CHECKING:
    from ...metadata.setting_table import BrokerConfig
    from ...storage.log_directory import LogDirectory
    from ..quorum.quorum import Quorum
    from ..rpc.peers import Peers
    from ..settings.node import Node
    from ..system.clock import Clock
    from .forwarder import Forwarder
    from .metadata_store import MetadataStore

logger = logging.getLogger(__name__)

_EPOCH_FILE = "broker-epoch"
_EPOCH_KIND = "broker-epoch"
_EPOCH_FILE_SIZE_BYTES_MAX = 1024
_ANSWER_SECONDS_MAX = 4.0
_RETRY_SECONDS = 0.2
_LEAVE_PAUSE_SECONDS = 0.02
_JOIN_PAUSE_SECONDS = 0.05
_REGISTER_AGAIN = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)
_UNANSWERED = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)


class Lifecycle:
    """Keeps a broker in its cluster.

    Attributes:
        broker_epoch: of the registration, -1 before the first.
        on_registered: called with the broker epoch after each registration.
    """

    def __init__(
        self,
        node: Node,
        config: BrokerConfig,
        store: MetadataStore,
        quorum: Quorum,
        directory: LogDirectory,
        clock: Clock,
        forwarder: Forwarder,
        peers: Peers | None,
    ) -> None:
        self._node = node
        self._config = config
        self._store = store
        self._quorum = quorum
        self._directory = directory
        self._clock = clock
        self._forwarder = forwarder
        self.broker_epoch = -1
        self._noted_epoch = _take_noted_epoch(directory)
        self.on_registered: list[Callable[[int], Awaitable[None]]] = []
        self._may_stop = trio.Event()
        self._is_stopping = False
        self._shown_at = -math.inf  # when the last heartbeat was sent that was answered
        self._confirmed_at = math.inf  # see `confirmed`; not before the first heartbeat
        self._lost_at = -math.inf  # when the lease ended before its time, or this broker began
        self._wake = trio.Event()
        if peers is not None:
            peers.on_broken.append(self._connection_ended)

    @property
    def is_in_service(self) -> bool:
        """True when the cluster counts on this broker."""
        own = self._store.image.brokers.get(self._node.node_id)
        return own is not None and own.broker_epoch == self.broker_epoch and not own.is_fenced

    @property
    def previous_epoch(self) -> int:
        """The epoch of the last registration if nothing of what it wrote is lost, or -1.

        Its process stopped cleanly, and the logs are as it left them.
        """
        return self._noted_epoch if self._directory.was_clean_shutdown else -1

    @property
    def has_lease(self) -> bool:
        """True while no other broker can have been made leader of what this broker leads.

        The controller takes no leadership from a broker that showed itself within the session
        timeout, but for a hand-over, in which the old leader is asked first, and a broker that
        refuses connections, which loses its own to the controller then. What a coordinator answers
        from memory is the truth only so long: it may be cut off, or have been paused.
        """
        if not self._node.is_clustered:
            return True
        return self._clock.monotonic() < self._shown_at + self._lease_seconds

    @property
    def is_without_lease_for_long(self) -> bool:
        """True when there was none for a session timeout: most likely, others lead by now.

        Before, it is most likely that a controller has failed, and a new one will confirm soon.
        """
        since = max(self._lost_at, self._shown_at + self._lease_seconds)
        session_s = self._config.broker_session_timeout_ms / 1000
        return self._node.is_clustered and self._clock.monotonic() > since + session_s

    @property
    def is_cut_off(self) -> bool:
        """True when no controller has confirmed this broker for a session timeout.

        By then it has been fenced if there is a majority of controllers somewhere, and others lead.
        So it serves clients no longer as a leader, although it reaches them. While a controller
        fails over the session goes on, unlike the lease, and clients notice nothing. It ends with
        the first answer of a controller with a majority: by then this broker knows what it leads.
        """
        if not self._node.is_clustered:
            return False
        session_s = self._config.broker_session_timeout_ms / 1000
        return self._clock.monotonic() > self._confirmed_at + session_s

    @property
    def _lease_seconds(self) -> float:
        # The controller that answered may have been deposed for as long as an election takes.
        config = self._config
        session_ms = config.broker_session_timeout_ms
        margin_ms = min(config.controller_quorum_election_timeout_ms, session_ms // 4)
        return (session_ms - margin_ms) / 1000

    def shown(self, sent_at: float) -> None:
        """The controller has taken a heartbeat that was sent then (monotonic seconds).

        Only if it had not fenced the broker before: then others may lead already.
        """
        self._shown_at = sent_at
        self._lost_at = -math.inf

    def confirmed(self, sent_at: float) -> None:
        """A controller with a majority has answered a heartbeat that was sent then.

        What it knew has been applied here. So leaderships in the image are this broker's, also if
        it had been fenced, and nobody else gets them before a session has passed. In contrast to
        `shown` this says nothing about the time before.
        """
        self._confirmed_at = sent_at

    def _connection_ended(self, node_id: int) -> None:
        if node_id == self._quorum.leader_id:
            self.controller_lost()

    def controller_lost(self) -> None:
        """The connection to the controller ended: it may take this broker for dead."""
        if self.has_lease:
            self._lost_at = self._clock.monotonic()
        self._shown_at = -math.inf
        self._wake.set()

    # --- begin ---------------------------------------------------------------------------------

    async def register(self) -> None:
        """Register until the controller takes it.

        Raises:
            StartError: it never will.
        """
        logged = ""
        while True:
            try:
                registered = await self._forwarder.ask(
                    operations.REGISTER, self._registration(), timeout_s=_ANSWER_SECONDS_MAX
                )
            except ChangeError as error:
                if isinstance(self._quorum.failure, SupersededLog):
                    raise StartError(str(self._quorum.failure)) from None
                if error.error_code == ErrorCode.INVALID_REGISTRATION:
                    raise StartError(
                        f"the controller refuses this broker: {error.message}"
                    ) from None
                is_unanswered = error.error_code in _UNANSWERED
                reason = self._no_controller() if is_unanswered else error.message
            else:
                self.broker_epoch = registered.broker_epoch
                return
            if reason != logged:
                logged = reason
                logger.warning("cannot register yet: %s", reason)
            await trio.sleep(_RETRY_SECONDS)

    def _no_controller(self) -> str:
        topology = self._node.topology
        voters = ", ".join(map(str, sorted(topology.voters)))
        return (
            f"no controller answers; most of the nodes {voters} have to run, and no other process "
            f"may have the node id {topology.node_id}"
        )

    def _registration(self) -> operations.Register:
        return operations.Register(
            broker_id=self._node.node_id,
            incarnation_id=self._node.incarnation,
            host=self._node.endpoint.host,
            port=self._node.endpoint.port,
            rpc_host=self._node.internal_endpoint.host,
            rpc_port=self._node.internal_endpoint.port,
            rack=self._config.broker_rack or None,
            previous_broker_epoch=self.previous_epoch,
            listeners=tuple(operations.Listener(*one) for one in self._node.listeners),
            features=(),
        )

    # --- in service ----------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Join the cluster and show that this broker lives, until cancelled.

        It has started when the cluster counts on this broker.

        Raises:
            StartError: the cluster does not want it.
        """
        self._lost_at = self._clock.monotonic()
        await self._join()
        if not self._node.is_clustered:
            task_status.started()
            return
        interval = self._config.broker_heartbeat_interval_ms / 1000
        is_started = False
        while True:
            await self._beat()
            if self.is_in_service and not is_started:
                is_started = True
                task_status.started()
            if self._is_stopping:
                pause = _LEAVE_PAUSE_SECONDS
            elif not is_started:
                pause = _JOIN_PAUSE_SECONDS
            elif self.is_in_service and self.has_lease:
                pause = interval
            else:
                # Requests that need a lease are refused meanwhile, and clients retry.
                pause = min(interval, _RETRY_SECONDS)
            with trio.move_on_after(pause):
                await self._wake.wait()
            self._wake = trio.Event()

    async def _join(self) -> None:
        await self.register()
        for listener in self.on_registered:
            await listener(self.broker_epoch)

    async def _beat(self) -> None:
        sent_at = self._clock.monotonic()
        try:
            answer = await self._forwarder.ask(
                operations.HEARTBEAT,
                self._heartbeat(self._quorum.applied_index, is_forced=False),
                timeout_s=_ANSWER_SECONDS_MAX,
            )
        except ChangeError as error:
            if error.error_code in _REGISTER_AGAIN and not self._is_stopping:
                logger.warning("registering again: %s", error.message)
                await self._join()
            else:
                logger.info("the controller does not answer: %s", error.message)
            return
        if answer.keeps_leading:
            self.shown(sent_at)
        # Controllers of older versions do not say whether they have a majority.
        if answer.has_majority or answer.keeps_leading or math.isinf(self._confirmed_at):
            self.confirmed(sent_at)
        if answer.may_stop:
            self._may_stop.set()

    def _heartbeat(self, applied_index: int, *, is_forced: bool) -> operations.Heartbeat:
        return operations.Heartbeat(
            self._node.node_id, self.broker_epoch, applied_index, self._is_stopping, is_forced
        )

    # --- end -----------------------------------------------------------------------------------

    async def leave(self, seconds: float) -> None:
        """Hand over what this broker leads, as far as the time allows; it serves meanwhile."""
        self._is_stopping = True
        self._wake.set()
        with trio.move_on_after(seconds):
            await self._may_stop.wait()
            logger.info("handed over what this broker led")
            return
        try:
            await self._forwarder.ask(
                operations.HEARTBEAT, self._heartbeat(0, is_forced=True), timeout_s=0.5
            )
        except ChangeError as error:
            logger.warning("no controller takes note of this broker's stop: %s", error.message)
        else:
            logger.warning("did not hand over everything in %g s", seconds)

    def note_clean_stop(self) -> None:
        """Write down which registration ends well, if the logs are closed well, too."""
        if self.broker_epoch < 0:
            return
        try:
            content = encode_checked(_EPOCH_KIND, self.broker_epoch)
            self._directory.disk.replace_file(_epoch_path(self._directory), content, sync=True)
        except OSError as error:
            logger.error("cannot note that this broker stopped well: %s", error)


def _epoch_path(directory: LogDirectory) -> str:
    return f"{directory.path}/{_EPOCH_FILE}"


def _take_noted_epoch(directory: LogDirectory) -> int:
    """The broker epoch that `Lifecycle.note_clean_stop` noted, or -1; it counts once."""
    disk, path = directory.disk, _epoch_path(directory)
    if not disk.exists(path):
        return -1
    try:
        content = disk.read_file(path, size_bytes_max=_EPOCH_FILE_SIZE_BYTES_MAX)
        epoch = decode_checked(_EPOCH_KIND, content, path=path)
        disk.remove(path)
    except (OSError, StorageError, LogError) as error:
        logger.error("%s", error)
        return -1
    return epoch if isinstance(epoch, int) else -1
