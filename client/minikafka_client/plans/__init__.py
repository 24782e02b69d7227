"""What to ask brokers for, as generators that do not know how the waiting is done."""
