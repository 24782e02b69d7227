"""How much memory the members of groups take, in all shards of a broker together.

A member sends its metadata in JoinGroup, and the leader of its group the assignments in SyncGroup;
both stay as long as the group. Any client may join any number of groups, so only a common limit
bounds what they take.
"""

from __future__ import annotations

from weakref import WeakSet

MEMBER_OVERHEAD_BYTES = 1024
"""What a member takes besides its texts: objects, a timer, and its share of the group."""


class MemberMemory:
    """The common limit; each shard has a share, which ends with the shard."""

    def __init__(self, size_bytes_max: int) -> None:
        self.size_bytes_max = size_bytes_max
        self._shares: WeakSet[MemberShare] = WeakSet()

    @property
    def used_bytes(self) -> int:
        return sum(share.used_bytes for share in self._shares)

    def has_room(self, size_bytes: int) -> bool:
        return self.used_bytes + size_bytes <= self.size_bytes_max

    def share(self) -> MemberShare:
        share = MemberShare()
        self._shares.add(share)
        return share


class MemberShare:
    """What the groups of one shard take."""

    def __init__(self) -> None:
        self.used_bytes = 0
