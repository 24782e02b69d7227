"""A data source that kills a worker, or the driver, at a step of the sink.

The option ``step`` selects the step (see `STEPS`), and ``victim`` the process: ``worker``, or
``jvm``, the driver's, and this worker with it. With ``failsFirst`` the first attempt of every task
fails after it has written everything.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from pyspark.taskcontext import TaskContext

from minikafka_client.sync import TransactionalWriter
from pyspark_minikafka.options import Options
from pyspark_minikafka.sink import kafka
from pyspark_minikafka.sink.exactly_once import ExactlyOnceWriter, PartMessage
from pyspark_minikafka.sink.input_schema import input_columns
from pyspark_minikafka.sink.settings import stream_settings
from pyspark_minikafka.source import DefaultSource

STEPS: Final[dict[str, tuple[str, str]]] = {
    "written": ("OpenTransaction", "write"),
    "prepared": ("OpenTransaction", "prepare"),
    "claimed": ("RealDriverKafka", "claim"),
    "in-doubt": ("ClaimedLog", "record"),
    "recorded": ("ClaimedLog", "record"),
    "half-committed": ("RealDriverKafka", "commit_parts"),
    "committed": ("RealDriverKafka", "commit_parts"),
}
"""The class and method after which the process dies."""


def pickle_by_value() -> None:
    """Pickle this module by value, because workers cannot import it."""
    register: Callable[[ModuleType], None] = cloudpickle.register_pickle_by_value
    register(sys.modules[__name__])


def die(victim: str) -> None:
    """Kill this worker and, if it is the victim, the driver's JVM."""
    process, name = os.getpid(), ""
    while victim == "jvm" and name != "java":
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
        process = int(status.rpartition(")")[2].split()[1])
        name = Path(f"/proc/{process}/comm").read_text(encoding="utf-8").strip()
    os.kill(process, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def set_trap(step: str, victim: str) -> None:
    """Kill this worker at the step."""
    owner_name, name = STEPS[step]
    owner = getattr(kafka, owner_name)
    function: Callable[..., Any] = getattr(owner, name)

    def trapped(face: Any, *arguments: Any) -> None:
        if step == "half-committed":
            function(face, arguments[0][:1])
        elif step == "in-doubt":  # the record is sent, but never committed
            setattr(TransactionalWriter, "commit", TransactionalWriter.flush)  # noqa: B010 - types forbid the trap
            function(face, *arguments)
        else:
            function(face, *arguments)
        die(victim)

    setattr(owner, name, trapped)


class TrappedWriter(ExactlyOnceWriter):
    """Sets the trap in the worker."""

    step: str
    victim: str
    fails_first: bool

    def write(  # type: ignore[override]  # Spark declares rows, as for its base
        self, iterator: Iterator[pa.RecordBatch]
    ) -> PartMessage:
        set_trap(self.step, self.victim)
        message = super().write(iterator)
        context = TaskContext.get()
        if self.fails_first and context is not None and context.attemptNumber() == 0:
            raise RuntimeError("the first attempt fails after everything is written")
        return message

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - the name is Spark's
    ) -> None:
        set_trap(self.step, self.victim)
        super().commit(messages, batchId)


class TrappedSource(DefaultSource):
    """The data source that kills a process at a step."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.step = options.pop("step", "")
        self.victim = options.pop("victim", "")
        self.fails_first = options.pop("failsFirst", "") == "true"
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "trapped"

    def streamWriter(  # noqa: N802 - the name is Spark's
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        settings = stream_settings(Options(self.options))
        writer = TrappedWriter(settings, input_columns(schema, settings.topic))
        writer.step, writer.victim = self.step, self.victim
        writer.fails_first = self.fails_first
        return writer
