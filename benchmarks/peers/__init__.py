"""What the broker is compared with: the least that a trio server can do."""
