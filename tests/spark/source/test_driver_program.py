"""A driver program that is no interpreter, such as `jupyter`: what fails, and the way out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minikafka.testing import Broker
from minikafka_client.sync import Producer
from tests.spark.conftest import MakeTopic

pytestmark = [pytest.mark.usefixtures("java"), pytest.mark.slow, pytest.mark.timeout(300)]

_SCRIPT = """
import sys
from pathlib import Path
from tests.spark.session import new_session

folder, bootstrap, topic, program = sys.argv[1:]
spark = new_session(Path(folder), driver=program)
try:
    reader = spark.read.format("minikafka").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("subscribe", topic)
    try:
        print("found", reader.load().count())
    except Exception as error:
        print("failed", "DATA_SOURCE_NOT_FOUND" in str(error))
    from pyspark_minikafka import DefaultSource
    spark.dataSource.register(DefaultSource)
    print("registered", reader.load().count())
finally:
    spark.stop()
"""


def test_a_registered_source_is_found_beside_a_driver_program_that_is_no_interpreter(
    broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    with Producer(broker.bootstrap) as producer:
        producer.send(topic, b"one")
        producer.send(topic, b"two")
    program = tmp_path / "jupyter"
    program.write_text("#!/bin/sh\necho 'no such command' >&2\nexit 1\n")
    program.chmod(0o755)
    script = tmp_path / "session.py"
    script.write_text(_SCRIPT)
    ran = subprocess.run(
        [sys.executable, script, tmp_path, broker.bootstrap, topic, program],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.splitlines() == ["failed True", "registered 2"], ran.stderr[-2000:]
