"""The command line: serve, topic, produce, consume, group, log."""
