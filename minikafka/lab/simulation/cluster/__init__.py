"""Brokers' real replicas and controllers in a simulated cluster."""
