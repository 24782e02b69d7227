"""RemoveRaftVoter 0: take the vote in the metadata quorum from a controller (KIP-853).

Brokers forward it to the active controller. The node goes on as an observer. A controller that
removes itself leads until that is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol.errors import ErrorCode
from ...protocol.fields import ZERO_UUID
from ...protocol.messages import remove_raft_voter
from ..quorum.change_error import ChangeError
from .add_raft_voter import require_cluster

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

TIMEOUT_SECONDS: Final = 20.0
"""The request names no time; clients wait for 30 seconds unless told otherwise."""


async def handle(
    broker: Broker, context: RequestContext, request: remove_raft_voter.Request
) -> remove_raft_voter.Response:
    del context
    try:
        require_cluster(broker, request.cluster_id)
        if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
            raise ChangeError(
                ErrorCode.INVALID_REQUEST,
                f"voter {request.voter_id} needs a node id and the id of its data directory",
            )
        await broker.voter_changes.remove(
            request.voter_id, request.voter_directory_id, TIMEOUT_SECONDS
        )
    except ChangeError as error:
        return remove_raft_voter.Response(error_code=error.error_code, error_message=error.message)
    return remove_raft_voter.Response(error_code=ErrorCode.NONE, error_message=None)
