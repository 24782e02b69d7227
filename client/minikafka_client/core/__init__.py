"""The pure core: machines and values without clock, dice, sockets or threads.

`sender` (with `accumulator`), `fetcher`, `group_member` and `transaction` are machines with
``handle``, ``deadline`` and ``expire``; each file opens with its theory and its table. `wire` is
one connection without its socket, `cluster` the cached metadata. Time is an argument, randomness is
injected, and I/O is returned as effects, so that tests run them without waiting.
"""
