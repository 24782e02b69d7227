"""One file per workload: what it measures, how, and its targets."""
