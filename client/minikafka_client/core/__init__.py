"""The pure core: machines and values without clock, dice, sockets or threads."""
