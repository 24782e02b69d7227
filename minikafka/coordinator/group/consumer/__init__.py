"""Consumer groups (KIP-848): the broker assigns, and members reconcile by heartbeats."""
