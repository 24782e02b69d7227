"""Coordinators: the decisions that one broker makes for a whole consumer group or transaction.

Both (`group`, `transaction`) are pure state machines: a shard takes a request and the time, and
returns effects in execution order. Stored state changes only when a record is replayed, so a shard
that was loaded from the log behaves like one that never stopped. `minikafka.broker.coordinators`
runs them.
"""
