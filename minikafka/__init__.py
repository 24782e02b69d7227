"""A Kafka that installs with pip: protocol, storage, metadata, coordinators, broker, commands."""
