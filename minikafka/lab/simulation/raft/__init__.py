"""The metadata quorum in a simulated cluster."""
