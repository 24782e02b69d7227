"""AddRaftVoter 0-1: let a controller vote in the metadata quorum (KIP-853, KIP-1186).

Brokers forward it to the active controller. The node has to run as an observer with the directory
that the request names, and to catch up within the time of the request. Of its listeners only
CONTROLLER counts, the internal one. Unlike in Kafka a request may name no listeners at all: then
the address counts that the node uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.fields import ZERO_UUID
from ...protocol.messages import add_raft_voter
from ..quorum.change_error import ChangeError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

LISTENER_NAME = "CONTROLLER"


async def handle(
    broker: Broker, context: RequestContext, request: add_raft_voter.Request
) -> add_raft_voter.Response:
    del context
    try:
        _check(broker, request)
        await broker.voter_changes.add(
            request.voter_id,
            request.voter_directory_id,
            _address(request),
            request.timeout_ms / 1000,
            waits_for_commit=request.ack_when_committed,
        )
    except ChangeError as error:
        return add_raft_voter.Response(error_code=error.error_code, error_message=error.message)
    return add_raft_voter.Response(error_code=ErrorCode.NONE, error_message=None)


def _check(broker: Broker, request: add_raft_voter.Request) -> None:
    require_cluster(broker, request.cluster_id)
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        raise ChangeError(
            ErrorCode.INVALID_REQUEST,
            f"voter {request.voter_id} needs a node id and the id of its data directory",
        )


def require_cluster(broker: Broker, cluster_id: str | None) -> None:
    """Raise ChangeError if a request is meant for another cluster."""
    if cluster_id is not None and cluster_id != broker.store.cluster_id:
        raise ChangeError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"the request is for cluster {cluster_id!r}, this is {broker.store.cluster_id!r}",
        )


def _address(request: add_raft_voter.Request) -> tuple[str, int] | None:
    """Raise ChangeError if the listeners do not include the internal one."""
    found = [(one.host, one.port) for one in request.listeners if one.name == LISTENER_NAME]
    if found and found[0][0] and found[0][1]:
        return found[0]
    if request.listeners:
        names = ", ".join(one.name for one in request.listeners)
        raise ChangeError(
            ErrorCode.INVALID_REQUEST,
            f"the listeners of voter {request.voter_id} ({names}) do not include {LISTENER_NAME} "
            "with a host and a port: the address that nodes use among themselves",
        )
    return None
