"""Metadata: what a cluster knows, how it is stored, and who may change it (floor 4, pure)."""
