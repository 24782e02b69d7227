"""What README.md and docs/spark.md show works as it stands there, and no option is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from minikafka_client.sync import Writer
from pyspark_minikafka.options import SOURCE_OPTIONS
from tests.live_broker import LiveBroker
from tests.spark.conftest import MakeTopic

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "spark.md").read_text()


def python_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


README_BLOCK = next(b for b in python_blocks((ROOT / "README.md").read_text()) if "spark." in b)
READS = [block for block in python_blocks(DOCUMENT) if ".load()" in block]


@pytest.mark.parametrize("block", [README_BLOCK, *READS], ids=["README", "batch", "stream"])
def test_an_example_of_a_read_works(
    spark: SparkSession,
    broker: LiveBroker,
    make_topic: MakeTopic,
    tmp_path: Path,
    block: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = make_topic(2, prefix="example")
    with Writer(broker.bootstrap) as writer:
        writer.send(topic, b"42 apples", b"alice")
    program = block.replace("localhost:9092", broker.bootstrap)
    program = re.sub(r'"subscribe", "\w+"', f'"subscribe", "{topic}"', program)
    program = program.replace("checkpoints/", f"{tmp_path}/")
    exec(program, {"spark": spark})
    if "readStream" in block:
        [row] = spark.table("orders_of_customers").collect()
        assert tuple(row) == ("alice", 1)
    else:
        assert "42 apples" in capsys.readouterr().out


@pytest.mark.parametrize("option", SOURCE_OPTIONS)
def test_every_option_of_a_read_is_in_the_document(option: str) -> None:
    assert f"`{option}`" in DOCUMENT
