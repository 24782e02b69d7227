"""Whole brokers on virtual time, with a simulated network and simulated disks."""
