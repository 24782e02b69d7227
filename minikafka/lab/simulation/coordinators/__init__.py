"""The real coordinators of groups and transactions, on nodes of a simulated cluster."""
