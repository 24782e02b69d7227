"""One file per workload: what it measures, its targets, and how."""
