"""Changes of the voters on the active controller: AddRaftVoter, RemoveRaftVoter, kraft.version.

`minikafka.consensus.membership` decides whether a change may be made now. What may be possible in a
moment (the change before is not committed yet, the new voter has not caught up) is tried again
until the time of the request is up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import trio

from ...consensus.effects import AddVoter, ChangeVoters, RecordVoters, RemoveVoter
from ...consensus.voters import KRAFT_VERSION_MAX, Voter, Why
from ...protocol.errors import ErrorCode
from ..quorum.change_error import FORWARDING_FAILURE, ChangeError
from ..quorum.reports import VotersRefusedError

if TYPE_CHECKING:
    from ..quorum.quorum import Quorum
    from ..rpc.peers import Peers
    from ..settings.node import Node

KRAFT_VERSION: Final = "kraft.version"

_PAUSE_SECONDS: Final = 0.1
_LATER: Final = frozenset({Why.NOT_READY, Why.PENDING, Why.LAGGING, Why.MINORITY, Why.UNKNOWN})


class VoterChanges:
    """Changes who votes in the metadata quorum.

    Args:
        peers: connections to the other nodes; None where there is no cluster.
    """

    def __init__(self, node: Node, quorum: Quorum, peers: Peers | None) -> None:
        self._node = node
        self._quorum = quorum
        self._peers = peers

    @property
    def kraft_version(self) -> int:
        """The level of the feature: 1 once the log records the voters."""
        return 0 if self._quorum.recorded_voters is None else KRAFT_VERSION_MAX

    async def upgrade(self, timeout_s: float, *, validates_only: bool = False) -> None:
        """Record the configured voters, so that they may be changed.

        Raises:
            ChangeError: it is not possible, or not now.
        """
        if self.kraft_version:
            return
        if not self._node.is_clustered:
            raise ChangeError(
                ErrorCode.INVALID_UPDATE_VERSION,
                "this broker has no listener for other nodes, so its address cannot be recorded; "
                f"restart it with --quorum {self._node.node_id}@host:port",
            )
        if validates_only:
            return
        addresses = tuple(
            (node_id, host, port) for node_id, (host, port) in self._node.topology.voters.items()
        )
        try:
            await self._change(lambda token: RecordVoters(addresses, token), timeout_s)
        except VotersRefusedError as error:
            if error.refusal.why is Why.RECORDED:
                return
            if error.refusal.why is Why.UNREADABLE:
                raise ChangeError(ErrorCode.INVALID_UPDATE_VERSION, error.message) from None
            raise

    async def add(
        self,
        node_id: int,
        directory_id: bytes,
        address: tuple[str, int] | None,
        timeout_s: float,
        *,
        waits_for_commit: bool = True,
    ) -> None:
        """Let an observer vote.

        Args:
            node_id: whose.
            directory_id: the data directory that it has to have.
            address: of its internal listener; None for the one that it uses.
            timeout_s: how long it may take to catch up, and to be committed.
            waits_for_commit: otherwise this returns when the leader has appended the change.

        Raises:
            ChangeError: it is not possible, or was not in time.
        """
        address = address or self._address_of(node_id)
        voter = Voter(node_id, directory_id, *address)
        await self._change(
            lambda token: AddVoter(voter, token), timeout_s, waits_for_commit=waits_for_commit
        )

    def _address_of(self, node_id: int) -> tuple[str, int]:
        known = None if self._peers is None else self._peers.addresses.get(node_id)
        is_refused_anyway = not self.kraft_version or node_id in self._quorum.voter_ids
        if known is None and self._quorum.is_leader and not is_refused_anyway:
            raise ChangeError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"node {node_id} has not connected to the controller, so its address is not known; "
                "start it with the --quorum of this cluster",
            )
        return known or ("", 0)

    async def remove(self, node_id: int, directory_id: bytes, timeout_s: float) -> None:
        """Make a voter an observer.

        Raises:
            ChangeError: it is not possible, or was not in time.
        """
        await self._change(lambda token: RemoveVoter(node_id, directory_id, token), timeout_s)

    async def _change(
        self,
        make: Callable[[object], ChangeVoters],
        timeout_s: float,
        *,
        waits_for_commit: bool = True,
    ) -> None:
        forwarding_failure = FORWARDING_FAILURE.get()
        if forwarding_failure is not None:
            raise forwarding_failure
        refused: VotersRefusedError | None = None
        with trio.move_on_after(timeout_s):
            while True:
                try:
                    await self._quorum.change_voters(make, waits_for_commit=waits_for_commit)
                    return
                except VotersRefusedError as error:
                    if error.refusal.why not in _LATER:
                        raise
                    refused = error
                await trio.sleep(_PAUSE_SECONDS)
                refused = refused if self._quorum.is_leader else None
        if refused is not None:
            raise refused
        raise ChangeError(
            ErrorCode.REQUEST_TIMED_OUT,
            "the change of the voters was not committed in time; it may still be",
        )
