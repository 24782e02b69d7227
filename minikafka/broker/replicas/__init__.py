"""The partitions that this broker has: logs, roles, replication between brokers, maintenance.

The decisions are pure (`minikafka.replication`); this room gives them logs, time and a network.
Coordinators and handlers find partitions in `index`, and learn what this broker leads from
`ReplicaManager.watch_topic`; nothing here knows them.

Following the metadata: `manager` opens and removes logs and makes each `partition` lead or follow;
`leader_timers`, `isr_proposals` and `disk_failures` are what leaders need of time and of the active
controller; `strays` decides about logs that the metadata does not know.

A follower's fetch, in order:

1. `fetcher` (follower): sends the positions of its partitions to their leader, and waits.
2. `fetch_server` (leader): compares each position with the log, counts it in the `partition` (high
   watermark, ISR), and answers with records when there are enough; `throttle` may delay them.
3. `fetcher`: has the pure machine judge the answer and the `partition` append it, and asks again.

The disk: `flusher` (fsync), `checkpointer`, and `maintenance` (retention, compaction, recovery).
For clients: `fetch_sessions` (KIP-227), `racks` (KIP-392), `offset_waiters` (acks=all).
"""
