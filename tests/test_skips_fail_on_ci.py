"""The hook of conftest.py that turns a skip into a failure, tried on a throw-away test suite."""

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py").read_text()


def run_suite(folder: Path, source: str, *, ci: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text("import pytest\n" + source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    environment = {"CI": ci, "PATH": ""}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


SKIPS = {
    "mark": "@pytest.mark.skip(reason='not today')\ndef test_it(): pass\n",
    "call": "def test_it(): pytest.skip('not today')\n",
    "fixture": ("@pytest.fixture\ndef java(): pytest.skip('not today')\ndef test_it(java): pass\n"),
    "module": "pytest.skip('not today', allow_module_level=True)\n",
    "expected failure": (
        "@pytest.mark.xfail(reason='not today')\ndef test_it(): raise ValueError\n"
    ),
}


@pytest.mark.parametrize("kind", SKIPS)
def test_a_skip_fails_on_ci_and_names_its_reason(tmp_path: Path, kind: str) -> None:
    finished = run_suite(tmp_path, SKIPS[kind], ci="true")
    assert finished.returncode != 0
    assert "was skipped, and CI runs every test" in finished.stdout
    assert "not today" in finished.stdout


def test_a_skip_is_allowed_on_a_contributors_machine(tmp_path: Path) -> None:
    finished = run_suite(tmp_path, SKIPS["call"], ci="")
    assert finished.returncode == 0
    assert "1 skipped" in finished.stdout


def test_a_suite_without_tests_fails(tmp_path: Path) -> None:
    finished = run_suite(tmp_path, "", ci="true")
    assert finished.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
