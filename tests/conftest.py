"""What holds for every test: hypothesis' profiles, short turns, and on CI a skipped test fails.

Fixtures live beside the tests that use them.
"""

import os
from collections.abc import Generator
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

from tests.kit.examples import SCALE, examples

# Every broker that a test starts says so when it keeps its clients waiting, and the test fails
# (`minikafka.broker.system.turns`). It is processor time, so a busy machine does not matter; a slow
# one may be 2.5 times as slow as those where the bound of 100 ms holds.
os.environ.setdefault("MINIKAFKA_TURN_WARNING_MS", "250")

ON_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

# No deadline anywhere: how long an example takes says more about the machine than about the code.
settings.register_profile(
    "dev",
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow] if SCALE > 1 else [],
)
settings.register_profile(
    "ci", parent=settings.get_profile("dev"), derandomize=True, database=None, print_blob=True
)
# Whether the code runs at all on another Python: `make test-fast`.
settings.register_profile("quick", parent=settings.get_profile("ci"), max_examples=examples(10))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if ON_CI else "dev"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failed one on CI: a test that did not run proves nothing."""
    return _failed_if_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Do the same for a module that skips itself while it is collected."""
    return _failed_if_skipped((yield))


def _failed_if_skipped(report: Report) -> Report:
    if ON_CI and report.skipped:
        reason = getattr(report, "wasxfail", None) or report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, and CI runs every test: {reason}"
        vars(report).pop("wasxfail", None)
    return report
