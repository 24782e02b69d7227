"""The pure floors of the broker under a simulated clock, network and disks."""
