"""The Spark session of the tests: small, quiet, and with the interpreter that runs them."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    # Quick to start; no test runs long enough to profit from the second compiler.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto",
    "spark.log.level": "FATAL",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def new_session(folder: Path, driver: str = sys.executable, **more: str) -> SparkSession:
    """Start a JVM with a session.

    Args:
        folder: where Spark puts what it writes.
        driver: the program that Spark believes the driver to run in.
        more: further settings, with ``__`` in place of dots.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = driver
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        **SETTINGS,
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    builder = SparkSession.builder.master("local[2]").appName("minikafka tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the versions of other packages
        return builder.getOrCreate()
