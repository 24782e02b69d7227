"""Programs that produce and consume in a simulated cluster, as people write them."""
