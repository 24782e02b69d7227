"""The command line: serve, topic, produce, consume, group, transaction, cluster, log."""
