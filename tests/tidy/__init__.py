"""Style as a test: the rules that no other tool checks. `tests/test_tidy.py` runs them."""
