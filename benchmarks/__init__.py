"""Measures what minikafka costs: workloads, the peers they are compared with, and the runner."""
