"""The side-by-side suite: what `python -m benchmarks suite` runs."""
