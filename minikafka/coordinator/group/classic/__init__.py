"""Classic groups: members agree by JoinGroup and SyncGroup, and one of them assigns."""
