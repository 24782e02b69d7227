"""Share-partitions of the partitions that this broker leads, and the sessions of their readers.

`partitions` runs the machines of `minikafka.coordinator.share`, `reading` reads the log for them,
and `sessions` knows what each member of a share group fetches (KIP-932).
"""
