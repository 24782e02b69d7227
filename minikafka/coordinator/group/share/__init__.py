"""Share groups (KIP-932): queues, whose members may read the same partitions."""
