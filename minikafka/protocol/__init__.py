"""Bytes to typed messages and back: Kafka's wire protocol, without any input or output."""
