"""The same scenarios with real clients against real brokers: ours, Apache Kafka, or any cluster."""
