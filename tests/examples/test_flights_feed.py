"""The feed of the flights: what each record says of itself."""

import json

from examples.flights.feed import END, Flight, counts_of, end_of_feed


def test_a_flight_says_who_reports_it_and_as_what() -> None:
    flight = Flight(b"UA", b"{}", b"JFK", 7)
    assert flight.headers == (("producer", b"JFK"), ("sequence", b"7"))


def test_the_end_belongs_to_no_airport_and_is_counted() -> None:
    flights = [Flight(b"UA", b"{}", b"JFK", 0), Flight(b"UA", b"{}", b"EWR", 0)]
    assert counts_of(flights) == {"JFK": 1, "EWR": 1, END: 1}
    assert "row" not in json.loads(end_of_feed().document)
