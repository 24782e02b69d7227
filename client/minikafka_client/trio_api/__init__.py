"""The client for trio programs: producer, consumer, admin client, and the loops behind them.

The loops (`send_loop`, `fetch_loop`, `group_loop`) feed the machines of `core` and carry out their
effects. `network` and `connection` are the only modules that touch sockets, and run plans. What has
no need of trio belongs in `core` or `plans`, where it is tested without I/O.
"""
