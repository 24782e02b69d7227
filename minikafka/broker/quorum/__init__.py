"""This node's part in the metadata quorum: Raft (`minikafka.consensus`) given a disk and a clock.

Committed entries are applied in order, on every node; `control` knows what they mean.
"""
