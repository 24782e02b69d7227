"""Multi-request operations as generators: administration, commits, look-ups, transactions.

A plan yields requests and is sent responses; see `plan`. A driver on trio and one on blocking
sockets run the same plans, which therefore import neither.
"""
