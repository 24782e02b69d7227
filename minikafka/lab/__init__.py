"""The delivery lab: what each guarantee loses, repeats and reorders, shown and counted.

Sentences about at-most-once, at-least-once and exactly-once are `claims`, each taken at its word:
it says how often records of certain cells of the `matrix` may be lost, repeated or reordered. The
engines attack these cells: a simulation with thousands of seeds, real processes, and Apache Kafka.
What they count is compared with what each claim says, and the claim is stamped true or false.

`minikafka lab` is the command line; ``docs/lab.md`` says how to use it.
"""
