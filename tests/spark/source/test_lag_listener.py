"""The lag of streams, computed from progress events; without Spark."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

from pyspark.sql.streaming.listener import QueryProgressEvent

from minikafka_client.types import TopicPartition
from pyspark_minikafka.listener import Lag, LagListener, lag_of


def progress(end: object, latest: object, name: str | None = "orders") -> dict[str, Any]:
    source = {"endOffset": end, "latestOffset": latest, "numInputRows": 7}
    return {"id": "q-1", "name": name, "batchId": 3, "sources": [source, {"endOffset": 5}]}


def test_the_lag_is_the_distance_from_the_batch_to_the_ends() -> None:
    end = {"t": {"0": 5, "1": 9}, "$minikafka": {"version": 1, "from": {"t": {"0": 2}}}}
    latest = {"t": {"0": 8, "1": 9}, "u": {"0": 4}}
    found = lag_of(progress(json.dumps(end), latest))
    assert found is not None
    assert found.of_partition == {
        TopicPartition("t", 0): 3,
        TopicPartition("t", 1): 0,
        TopicPartition("u", 0): 0,
    }
    assert (found.total, found.rows_read, found.batch_id) == (3, 7, 3)
    assert (found.min_offsets_behind_latest, found.max_offsets_behind_latest) == (0, 3)
    assert found.avg_offsets_behind_latest == 1.0
    assert Lag("q", "id", 0, 0).avg_offsets_behind_latest == 0.0


def test_other_sources_have_no_lag() -> None:
    assert lag_of(progress("17", None)) is None
    assert lag_of(progress('{"logOffset": 3}', '{"logOffset": 4}')) is None


def test_a_listener_keeps_the_latest_lag_and_survives_a_failing_callback() -> None:
    reported: list[Lag] = []

    def report(lag: Lag) -> None:
        reported.append(lag)
        raise ValueError("a bug elsewhere")

    listener = LagListener(report)
    for end in (1, 2):
        document = json.dumps(progress({"t": {"0": end}}, {"t": {"0": 4}}, name=None))
        event = SimpleNamespace(progress=SimpleNamespace(json=document))
        listener.onQueryProgress(cast("QueryProgressEvent", event))
    assert [lag.total for lag in reported] == [3, 2]
    assert listener.lags == {"q-1": reported[-1]}
