"""Waiting until nothing is left to do.

Trio exports the function as `trio.testing.wait_all_tasks_blocked`, but `trio.testing` imports
pytest, which would double the time that a broker takes to start.
"""

from trio._core._run import wait_all_tasks_blocked

__all__ = ["wait_all_tasks_blocked"]
