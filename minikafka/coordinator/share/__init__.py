"""Share groups (KIP-932): the state of share-partitions, and how it is stored.

`share_partition` is what the leader of a partition runs for each share group; `shard` is one shard
of the share coordinator, which stores the state of share-partitions in ``__share_group_state``.
"""
