"""A Spark query with the exactly-once sink, which dies at exactly the point it is told.

``python -m minikafka.lab.processes.spark_worker``, with a job as a line of JSON on stdin, like that
of `minikafka.lab.processes.worker`. Each micro-batch is one task, which copies a few records to the
topic of results. The point is reached

    before   when a task has its records, and has written nothing
    between  when the sink has decided that the batch is written, and Spark does not know
    after    when Spark knows: the next batch is about to be written

and the driver's JVM dies there, together with the Python worker of the task.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

from pyspark_minikafka.options import Options
from pyspark_minikafka.sink.exactly_once import ExactlyOnceWriter, PartMessage
from pyspark_minikafka.sink.input_schema import input_columns
from pyspark_minikafka.sink.settings import stream_settings
from pyspark_minikafka.source import DefaultSource

from .worker import results_topic_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

_STDIN: Final = 0
_PORTION: Final = 6
"""Records of a micro-batch. A run sends more than four times as many; each batch takes a second."""
_LOOK_AGAIN_S: Final = 0.05
_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto",
    "spark.log.level": "FATAL",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Small, quiet, and quick to start."""


# --- in a Python worker of Spark ------------------------------------------------------------------


def _die() -> None:
    """Kill the driver's JVM, and this worker of it."""
    process, name = os.getpid(), ""
    while name != "java":
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
        process = int(status.rpartition(")")[2].split()[1])
        name = Path(f"/proc/{process}/comm").read_text(encoding="utf-8").strip()
    os.kill(process, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class _Trap:
    """Where a query dies.

    Args:
        place: a file that is one byte longer for each time that the point was reached.
        point: ``before`` or ``between``; anything else for nowhere.
        count: at the how manieth time.
    """

    def __init__(self, place: str, point: str, count: int) -> None:
        self._place = place
        self._point = point
        self._count = count

    def reach(self, point: str) -> None:
        """Be somewhere; it may be the end."""
        if point != self._point:
            return
        with Path(self._place).open("ab") as times:
            times.write(b".")
            times.flush()
            reached = times.tell()
        if reached == self._count:
            _die()


class _DyingWriter(ExactlyOnceWriter):
    trap: _Trap

    def write(  # type: ignore[override]  # Spark declares rows, as for its base
        self, iterator: Iterator[pa.RecordBatch]
    ) -> PartMessage:
        self.trap.reach("before")
        return super().write(iterator)

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - the name is Spark's
    ) -> None:
        super().commit(messages, batchId)
        self.trap.reach("between")


class DyingSource(DefaultSource):
    """The data source ``minikafka``, whose sink dies at a point."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        own = [options.pop(name, "") for name in ("trap", "point", "count")]
        self._trap = _Trap(own[0], own[1], int(own[2] or 0))
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """As in ``format``."""
        return "dying"

    def streamWriter(  # noqa: N802 - the name is Spark's
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """Of a query."""
        del overwrite
        settings = stream_settings(Options(self.options))
        writer = _DyingWriter(settings, input_columns(schema, settings.topic))
        writer.trap = self._trap
        return writer


# --- the driver -----------------------------------------------------------------------------------


def _say(kind: str, **what: object) -> None:
    line = json.dumps({"kind": kind, "at": time.time(), **what})
    os.write(sys.__stdout__.fileno() if sys.__stdout__ else 1, line.encode() + b"\n")


def _session(folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[1]").appName("minikafka lab")
    folders = {name: str(folder / name) for name in ("local", "warehouse")}
    for name, value in {
        **_SETTINGS,
        "spark.local.dir": folders["local"],
        "spark.sql.warehouse.dir": folders["warehouse"],
    }.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the versions of other packages
        return builder.getOrCreate()


def start(job: Mapping[str, Any], spark: SparkSession) -> StreamingQuery:
    """The query of a job; see `minikafka.lab.processes.worker.Job`."""
    # Spark's workers get this module from the driver, because it is the driver's main program.
    send = cast("Callable[[ModuleType], None]", getattr(cloudpickle, "register_pickle_by_value"))  # noqa: B009 - it has no types
    send(sys.modules[__name__])
    spark.dataSource.register(DyingSource)
    kafka = {f"kafka.{name}": str(value) for name, value in job.get("properties", {}).items()}
    kafka["kafka.bootstrap.servers"] = job["bootstrap"]
    folder = Path(job["database"]).with_suffix(".spark")
    folder.mkdir(exist_ok=True)
    point, count = job.get("point", ""), job.get("count", 0)
    if point == "after":  # that is when the next batch is before it
        point, count = "before", count + 1
    records = (
        spark.readStream.format("minikafka")
        .options(**kafka)
        .option("subscribe", job["topic"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", _PORTION)
        .load()
    )
    return (
        records.select("value")
        .writeStream.format("dying")
        .options(**kafka)
        .option("topic", results_topic_of(job["topic"]))
        .option("trap", str(folder / f"{job['name']}-{os.getpid()}"))
        .option("point", point)
        .option("count", count)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )


def _report(query: StreamingQuery, topic: str) -> None:
    """Say how far the query is, until it ends."""
    said: dict[int, int] = {}
    while query.isActive:
        progress = cast("Mapping[str, Any] | None", query.lastProgress)
        sources: list[Mapping[str, Any]] = progress["sources"] if progress else []
        for source in sources:
            offsets = _positions(source.get("endOffset"), topic)
            for partition, position in offsets.items():
                if said.get(partition) != position:
                    said[partition] = position
                    _say("commit")
                    _say("position", partition=partition, position=position)
        time.sleep(_LOOK_AGAIN_S)
    error = query.exception()
    if error is not None:
        raise error


def _positions(offset: object, topic: str) -> dict[int, int]:
    """The positions in a topic, out of what Spark reports of the source."""
    found = cast("Mapping[str, Mapping[str, int]] | None", offset)
    if isinstance(offset, str):
        found = json.loads(offset)
    return {int(partition): end for partition, end in (found or {}).get(topic, {}).items()}


def _leave_at_the_end() -> None:
    while os.read(_STDIN, 1_000):
        pass
    os._exit(0)


def main() -> None:
    """Read a job and do it."""
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(_STDIN, 1 << 16)
        if not more:
            return
        line += more
    job: Mapping[str, Any] = json.loads(line)
    threading.Thread(target=_leave_at_the_end, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="minikafka-lab-spark-") as folder:
        try:
            query = start(job, _session(Path(folder)))
            _say("start")
            _report(query, job["topic"])
        except (PySparkException, OSError) as error:
            raise SystemExit(f"the query has ended: {error}") from None


if __name__ == "__main__":
    main()
