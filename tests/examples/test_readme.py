"""What README.md shows in Python works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from minikafka import testing

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)

EXPECTED: dict[str, tuple[str, ...]] = {
    '"billing"': (
        "RecordMetadata(topic='orders', partition=0, offset=0",
        "[RecordMetadata(topic='orders', partition=0, offset=1",
        "0 0 b'42 apples'",
    ),
    '"dispatch"': ("stored at 0",),
    '"shipping"': ("stored at offset 0", "and at [1, 2]", "ship b'7 pears' to b'bob'"),
    '"bakery"': ("in one transaction: 2",),
    '"mail"': ("p95: ", "mail alice", "behind by 0"),
}
"""What a block that has these words prints; a consumer then waits for more, and is ended."""


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """A broker as somebody who tries the README would start it."""
    with testing.broker(directory=tmp_path_factory.mktemp("readme")) as broker:
        yield broker.bootstrap


def block_with(words: str) -> str:
    found: list[str] = [block for block in BLOCKS if words in block]
    assert len(found) == 1, words
    return found[0]


def test_every_block_is_tried() -> None:
    # tests/spark tries the one for Spark, where a session is running.
    tried = [*EXPECTED, "def test_sends", "SparkSession"]
    assert len(BLOCKS) == len(tried)
    assert [block_with(words) for words in tried]


@pytest.mark.parametrize("words", EXPECTED)
def test_a_block_prints_what_it_should(bootstrap: str, words: str) -> None:
    program = block_with(words).replace("localhost:9092", bootstrap)
    with subprocess.Popen(
        [sys.executable, "-u", "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        printed: list[str] = []
        try:
            for expected in EXPECTED[words]:
                printed.append(process.stdout.readline())
                assert printed[-1].startswith(expected), printed
        finally:
            process.kill()


def test_the_test_in_it_passes(tmp_path: Path) -> None:
    (tmp_path / "test_with_kafka.py").write_text(block_with("def test_sends"))
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_with_kafka.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout
