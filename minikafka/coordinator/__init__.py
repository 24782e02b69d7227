"""Coordinators: what one broker decides for a whole consumer group or transaction."""
