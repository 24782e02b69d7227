"""What a node takes from the machine it runs on: clocks, worker threads, file descriptors, signals.

Everything here can be replaced by a test or a simulation; nothing here knows what a broker is.
"""
