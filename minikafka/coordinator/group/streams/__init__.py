"""Streams groups (KIP-1071): the instances of one Kafka Streams application."""
