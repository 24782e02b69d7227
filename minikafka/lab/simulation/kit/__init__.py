"""What simulations share: a clock, a network, and what has to hold."""
