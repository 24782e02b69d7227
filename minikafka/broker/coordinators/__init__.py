"""Coordinators on this broker: consumer groups and transactions, and the runtime under both.

A shard is a pure state machine (`minikafka.coordinator`); this room loads it from its partition,
appends what it decides, sends replies once that is committed, and writes transaction markers.
`runtime` is shared; `groups` and `transactions` add what only one kind of coordinator needs. Rules
about groups and transactions belong to the state machines, not here.
"""
