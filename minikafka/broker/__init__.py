"""The broker's shell: the only floor that knows trio, sockets and clocks.

`run`, `opening` and `lifetime` take a node from its data directory and settings to a running
process and back; `broker` builds the services and hands each what it uses. The rooms are packages:
``net``, ``handlers``, ``coordinators``, ``replicas``, ``control``, ``quorum``, ``rpc``,
``transport``, ``settings`` and ``system``, from the top down. A room imports only those below it.
"""
