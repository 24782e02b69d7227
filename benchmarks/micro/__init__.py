"""Microbenchmarks: one piece of work in one process."""
