"""The pipeline of examples/flights on a few made-up flights: each lands once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.demo.spark_side import audit, landed
from examples.flights.feed import Flight, counts_of, end_of_feed
from examples.flights.pipeline import Place, start
from minikafka.testing import Broker
from minikafka_client.sync import Producer
from tests.spark.conftest import MakeTopic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_all_flights_land_once_over_restarts(
    spark: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    place = Place(broker.bootstrap, tmp_path, make_topic(2), make_topic(1))
    flights = [
        Flight(
            b"AA",
            b'{"row":%d,"carrier":"AA","time_hour":"2013-01-01T%02d:00:00Z","dep_delay":%d}'
            % (row, row // 10, 60 * (row % 10)),
            b"JFK",
            row,
        )
        for row in range(40)
    ]
    for part in (flights[:25], [*flights[25:], end_of_feed()]):
        with Producer(broker.bootstrap) as producer:
            for flight in part:
                producer.send(place.topic, flight.document, flight.carrier, headers=flight.headers)
            producer.flush()
        for query in start(spark, place, available_now=True):
            query.awaitTermination()
    found = landed(spark, place)
    assert found == {
        "raw": 40,
        "raw_once": 40,
        "hours": 4,
        "flights_in_hours": 40,
        "alerts": 24,
        "alerts_once": 24,
    }
    is_clean, report = audit(spark, place, counts_of(flights))
    assert is_clean
    assert report.records == 41
