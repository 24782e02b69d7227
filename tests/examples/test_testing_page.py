"""What docs/testing.md shows in Python works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from minikafka.testing import FAILPOINTS

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
TESTS = [block for block in BLOCKS if "def test_" in block]
PROGRAMS = {
    "print(producer.send_and_wait": "RecordMetadata(topic='orders'",
    "subprocess.run": "127.0.0.1:",
    "trio.run": "1 retry",
    "simulation.run(": "broker 1 is killed, and starts 2 s later",
}


def test_every_block_is_tried() -> None:
    assert len(TESTS) + len(PROGRAMS) == len(BLOCKS)


def test_all_failpoints_are_listed() -> None:
    rows = re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert dict(rows) == FAILPOINTS


def test_the_tests_pass(tmp_path: Path) -> None:
    for number, block in enumerate(TESTS):
        (tmp_path / f"test_block_{number}.py").write_text(block)
    ini = re.findall(r"^```ini\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0]
    (tmp_path / "pytest.ini").write_text(ini.replace("false", "true"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{sum(block.count('def test_') for block in TESTS)} passed" in done.stdout


@pytest.mark.parametrize("words", PROGRAMS)
def test_the_programs_run(words: str) -> None:
    (program,) = (block for block in BLOCKS if words in block and block not in TESTS)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert PROGRAMS[words] in done.stdout
