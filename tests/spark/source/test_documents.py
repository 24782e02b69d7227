"""The examples of README.md and docs/spark.md work as they are, and no option is left out."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from minikafka.testing import Broker
from minikafka_client.sync import Writer
from pyspark_minikafka.options import SOURCE_OPTIONS
from tests.spark.conftest import MakeTopic

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "spark.md").read_text()


def python_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


README_BLOCK = next(b for b in python_blocks((ROOT / "README.md").read_text()) if "spark." in b)
UPDATE = textwrap.dedent(
    next(
        each
        for each in re.findall(r"^  ```python\n(.*?)^  ```", DOCUMENT, re.MULTILINE | re.DOTALL)
        if "update" in each
    )
)
READS = [block for block in python_blocks(DOCUMENT) if ".load()" in block]


@pytest.mark.parametrize("block", [README_BLOCK, *READS], ids=["README", "batch", "stream"])
def test_an_example_of_a_read_works(
    spark: SparkSession,
    broker: Broker,
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


def test_the_ways_around_unsupported_writes_work(
    spark: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, topic = make_topic(prefix="source"), make_topic(prefix="counts")
    with Writer(broker.bootstrap) as writer:
        for key in (b"alice", b"bob", b"alice"):
            writer.send(source, b"42 apples", key)
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": source}
    rows = spark.readStream.format("minikafka").options(**options, startingOffsets="earliest")
    counts = rows.load().groupBy("key").count().selectExpr("key", "CAST(count AS STRING) AS value")
    program = UPDATE.replace("localhost:9092", broker.bootstrap).replace('"counts"', f'"{topic}"')
    names: dict[str, Any] = {"counts": counts}
    exec(program.replace("checkpoints/", f"{tmp_path}/"), names)
    try:
        names["query"].processAllAvailable()
    finally:
        names["query"].stop()
    found = spark.read.format("minikafka").options(**{**options, "subscribe": topic}).load()
    assert {(bytes(row.key), bytes(row.value)) for row in found.collect()} == {
        (b"alice", b"2"),
        (b"bob", b"1"),
    }
    # Once Spark allows these two, the document has to change.
    with pytest.raises(PySparkException, match="cannot be written in the"):
        found.write.format("minikafka").options(**options, topic=topic).save()
    query = (
        counts.writeStream.format("minikafka")
        .options(**options, topic=topic, checkpointLocation=str(tmp_path / "update"))
        .outputMode("update")
        .start()
    )
    with pytest.raises(StreamingQueryException, match="does not support Update mode"):
        query.awaitTermination()


@pytest.mark.parametrize("option", SOURCE_OPTIONS)
def test_every_option_of_a_read_is_in_the_document(option: str) -> None:
    assert f"`{option}`" in DOCUMENT
