"""A driver that kills itself at a step of a batch; each of its tasks has failed once before.

BOOTSTRAP TOPIC INPUT CHECKPOINT FOLDER STEP
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.spark.session import new_session
from tests.spark.sink.trapped_source import TrappedSource, pickle_by_value


def main() -> None:
    """Write a stream of text files."""
    bootstrap, topic, texts, checkpoint, folder, step = sys.argv[1:]
    spark = new_session(Path(folder), spark__master="local[2,3]")
    pickle_by_value()
    spark.dataSource.register(TrappedSource)
    query = (
        spark.readStream.text(texts)
        .writeStream.format("trapped")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("step", step)
        .option("victim", "jvm")
        .option("failsFirst", "true")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
