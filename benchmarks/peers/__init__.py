"""Peers of the broker: the least that a trio server can do."""
