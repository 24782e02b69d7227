"""Hostile bytes for every parser: ``make fuzz`` for as long as one likes, some of it in the tests.

A *target* is a parser and what it may raise (`targets`). Its corpus, ``corpus/<target>.txt``, has
inputs that led to different outcomes, one in a line; mutations of them are what is tried
(`mutation`). `run` is the long run, which also adds what it finds to the corpus (``--grow``).
"""
