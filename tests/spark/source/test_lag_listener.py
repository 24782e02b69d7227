"""The lag of streams, from what Spark reports of them; without Spark."""

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


def test_the_lag_is_what_lies_between_the_batch_and_the_ends() -> None:
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


def test_other_sources_have_no_lag() -> None:
    assert lag_of(progress("17", None)) is None
    assert lag_of(progress('{"logOffset": 3}', '{"logOffset": 4}')) is None


def test_a_listener_keeps_the_latest_and_survives_what_listens_to_it() -> None:
    told: list[Lag] = []

    def tell(lag: Lag) -> None:
        told.append(lag)
        raise ValueError("a bug elsewhere")

    listener = LagListener(tell)
    for end in (1, 2):
        document = json.dumps(progress({"t": {"0": end}}, {"t": {"0": 4}}, name=None))
        event = SimpleNamespace(progress=SimpleNamespace(json=document))
        listener.onQueryProgress(cast("QueryProgressEvent", event))
    assert [lag.total for lag in told] == [3, 2]
    assert listener.lags == {"q-1": told[-1]}
