"""Groups of all types and committed offsets (`GroupShard`), as pure state machines.

`shard` dispatches to one room for each type of group; all look alike (`replay`: how its records
change the state; `requests`: what clients ask; `records`: Kafka's formats)::

    shard ─► offset_requests, cleanup, descriptions       for groups of any type
          ─► classic   consumer   share   streams         a room for each type
          ─► context, group, records, effects, ...        what the rooms share

The shard is imported when it is first needed, so that a broker without groups starts sooner.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .config import GroupConfig
from .effects import (
    Append,
    Ask,
    CreateInternalTopics,
    DeleteShareState,
    Effect,
    GroupRequest,
    GroupResponse,
    InitializeShareState,
    Match,
    NewTopic,
    Now,
    Record,
    Reply,
    ShareState,
)

if TYPE_CHECKING:
    from .offset_requests import single_group_response
    from .shard import GroupShard

__all__ = [
    "Append",
    "Ask",
    "CreateInternalTopics",
    "DeleteShareState",
    "Effect",
    "GroupConfig",
    "GroupRequest",
    "GroupResponse",
    "GroupShard",
    "InitializeShareState",
    "Match",
    "NewTopic",
    "Now",
    "Record",
    "Reply",
    "ShareState",
    "single_group_response",
]

_LATER = {"GroupShard": ".shard", "single_group_response": ".offset_requests"}


def __getattr__(name: str) -> object:
    if name in _LATER:
        member: object = getattr(import_module(_LATER[name], __name__), name)
        return member
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
