"""A broker's life in its cluster: it registers, shows itself, serves, hands over, and leaves.

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
from typing import TYPE_CHECKING, cast

import trio

from ..metadata.brokers import Registration
from ..protocol.errors import ErrorCode
from ..storage.checked_file import decode_checked, encode_checked
from ..storage.errors import LogError, StorageError
from .operations import HEARTBEAT, REGISTER
from .start_error import StartError

if TYPE_CHECKING:
    from .broker import Broker

logger = logging.getLogger(__name__)

_EPOCH_FILE = "broker-epoch"
_EPOCH_KIND = "broker-epoch"
_EPOCH_FILE_SIZE_BYTES_MAX = 1024
_ANSWER_SECONDS_MAX = 4.0
_RETRY_SECONDS = 0.2
_LEAVE_PAUSE_SECONDS = 0.02
_JOIN_PAUSE_SECONDS = 0.05
_REGISTER_AGAIN = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)


class Lifecycle:
    """Keeps a broker in its cluster.

    Attributes:
        broker_epoch: of the registration, -1 before the first.
        previous_epoch: of the last registration, if its process stopped in good order; or -1.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.broker_epoch = -1
        self.previous_epoch = _take_previous_epoch(broker)
        self._may_stop = trio.Event()
        self._is_stopping = False
        self._shown_at = -math.inf  # when the last heartbeat was sent that was answered
        self._lost_at = -math.inf  # when the lease ended before its time, or this broker began
        self._wake = trio.Event()

    @property
    def is_in_service(self) -> bool:
        """True when the cluster counts on this broker."""
        broker = self._broker
        own = broker.image.brokers.get(broker.node_id)
        return own is not None and own.broker_epoch == self.broker_epoch and not own.is_fenced

    @property
    def has_lease(self) -> bool:
        """True while nobody else can have been made leader of what this broker leads.

        The controller takes no leadership from a broker that showed itself within the session
        timeout, but for a hand-over, in which the old leader is asked first, and a broker that
        refuses connections, which loses its own to the controller then. What a coordinator answers
        from memory is the truth only so long: it may be cut off, or have been paused.
        """
        broker = self._broker
        if not broker.topology.is_clustered:
            return True
        return broker.clock.monotonic() < self._shown_at + self._lease_seconds

    @property
    def is_without_lease_for_long(self) -> bool:
        """True when there was none for a session timeout: most likely, others lead by now.

        Before, it is most likely that a controller has failed, and a new one will confirm soon.
        """
        broker = self._broker
        since = max(self._lost_at, self._shown_at + self._lease_seconds)
        session_s = broker.config.broker_session_timeout_ms / 1000
        return broker.topology.is_clustered and broker.clock.monotonic() > since + session_s

    @property
    def _lease_seconds(self) -> float:
        # The controller that answered may have been none any more for as long as an election takes.
        config = self._broker.config
        session_ms = config.broker_session_timeout_ms
        margin_ms = min(config.controller_quorum_election_timeout_ms, session_ms // 4)
        return (session_ms - margin_ms) / 1000

    def shown(self, sent_at: float) -> None:
        """The controller has taken a heartbeat that was sent then (monotonic seconds).

        It had not fenced the broker before: then others may lead, and the broker has yet to hear.
        """
        self._shown_at = sent_at
        self._lost_at = -math.inf

    def controller_lost(self) -> None:
        """The connection to the controller ended: perhaps it takes this broker for dead by that."""
        if self.has_lease:
            self._lost_at = self._broker.clock.monotonic()
        self._shown_at = -math.inf
        self._wake.set()

    # --- begin ---------------------------------------------------------------------------------

    async def register(self) -> None:
        """Register until the controller takes it.

        Raises:
            StartError: it never will.
        """
        broker = self._broker
        told = ""
        while True:
            code, result = await broker.ask_controller(
                REGISTER, tuple(self._registration()), timeout_s=_ANSWER_SECONDS_MAX
            )
            if code == ErrorCode.NONE:
                self.broker_epoch = cast("int", result)
                return
            if code == ErrorCode.INVALID_REGISTRATION:
                raise StartError(f"the controller refuses this broker: {result}")
            reason = f"{result}" if result else self._no_controller()
            if reason != told:
                told = reason
                logger.warning("cannot register yet: %s", reason)
            await trio.sleep(_RETRY_SECONDS)

    def _no_controller(self) -> str:
        topology = self._broker.topology
        voters = ", ".join(map(str, sorted(topology.voters)))
        return (
            f"no controller answers; most of the nodes {voters} have to run, and no other process "
            f"may have the node id {topology.node_id}"
        )

    def _registration(self) -> Registration:
        broker = self._broker
        config = broker.config
        return Registration(
            broker.node_id,
            broker.incarnation,
            *broker.endpoint,
            *broker.internal_endpoint,
            rack=config.broker_rack or None,
            previous_broker_epoch=self.previous_epoch,
        )

    # --- in service ----------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Join the cluster and show that this broker lives, until cancelled.

        It has started when the cluster counts on this broker.

        Raises:
            StartError: the cluster does not want it.
        """
        self._lost_at = self._broker.clock.monotonic()
        await self._join()
        if not self._broker.topology.is_clustered:
            task_status.started()
            return
        interval = self._broker.config.broker_heartbeat_interval_ms / 1000
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
                # What needs a lease is refused, and clients ask again and again.
                pause = min(interval, _RETRY_SECONDS)
            with trio.move_on_after(pause):
                await self._wake.wait()
            self._wake = trio.Event()

    async def _join(self) -> None:
        await self.register()
        broker = self._broker
        if not broker.topology.is_clustered:
            # Its partitions have their roles already: nobody else can have decided about them, and
            # nobody else has replicas of them.
            broker.replicas.broker_epoch = self.broker_epoch
        else:
            await broker.replicas.activate(self.broker_epoch)

    async def _beat(self) -> None:
        broker = self._broker
        fields = (
            broker.node_id,
            self.broker_epoch,
            broker.quorum.applied_index,
            self._is_stopping,
            False,
        )
        sent_at = broker.clock.monotonic()
        code, result = await broker.ask_controller(HEARTBEAT, fields, timeout_s=_ANSWER_SECONDS_MAX)
        if code in _REGISTER_AGAIN and not self._is_stopping:
            logger.warning("registering again: %s", result)
            await self._join()
        elif code == ErrorCode.NONE:
            may_stop, _, keeps_leading = result
            if keeps_leading:
                self.shown(sent_at)
            if may_stop:
                self._may_stop.set()
        else:
            logger.info("the controller does not answer: %s", result or _words(code))

    # --- end -----------------------------------------------------------------------------------

    async def leave(self, seconds: float) -> None:
        """Hand over what this broker leads, as far as the time allows; it serves meanwhile."""
        self._is_stopping = True
        self._wake.set()
        with trio.move_on_after(seconds):
            await self._may_stop.wait()
            logger.info("handed over what this broker led")
            return
        fields = (self._broker.node_id, self.broker_epoch, 0, True, True)
        code, _ = await self._broker.ask_controller(HEARTBEAT, fields, timeout_s=0.5)
        if code == ErrorCode.NONE:
            logger.warning("did not hand over everything in %g s", seconds)
        else:
            logger.warning("no controller takes note of this broker's stop: %s", _words(code))

    def note_clean_stop(self) -> None:
        """Write down which registration ends well, if the logs are closed well, too."""
        broker = self._broker
        if self.broker_epoch < 0:
            return
        try:
            content = encode_checked(_EPOCH_KIND, self.broker_epoch)
            broker.directory.disk.replace_file(_epoch_path(broker), content, sync=True)
        except OSError as error:
            logger.error("cannot note that this broker stopped well: %s", error)


def _words(code: ErrorCode) -> str:
    return code.name.lower().replace("_", " ")


def _epoch_path(broker: Broker) -> str:
    return f"{broker.directory.path}/{_EPOCH_FILE}"


def _take_previous_epoch(broker: Broker) -> int:
    """The broker epoch of the last clean stop, or -1; it counts once."""
    disk, path = broker.directory.disk, _epoch_path(broker)
    if not disk.exists(path):
        return -1
    try:
        content = disk.read_file(path, size_bytes_max=_EPOCH_FILE_SIZE_BYTES_MAX)
        epoch = decode_checked(_EPOCH_KIND, content, path=path)
        disk.remove(path)
    except (OSError, StorageError, LogError) as error:
        logger.error("%s", error)
        return -1
    return epoch if isinstance(epoch, int) and broker.directory.was_clean_shutdown else -1
