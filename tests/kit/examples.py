"""How many examples hypothesis tries, for every test by the same factor."""

import os

# HYPOTHESIS_SCALE=50 looks fifty times harder, also where a test has a number of its own.
SCALE = int(os.environ.get("HYPOTHESIS_SCALE", "1"))


def examples(number: int) -> int:
    """Return the `max_examples` of a test that tries `number` of them on a usual run."""
    return number * SCALE
