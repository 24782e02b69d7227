"""docs/compatibility.md says which APIs are served, and gives a reason for every difference."""

from minikafka.broker.handlers import API_TABLE
from tests.compatibility.api_table import KAFKA, PAGE, REASONS, rows, with_section


def test_the_page_shows_the_handler_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_section(page), "run python -m tests.compatibility.api_table"


def test_every_difference_from_kafka_has_a_reason() -> None:
    unexplained = [
        name for _, name, served, kafkas, reason in rows() if served != kafkas and not reason
    ]
    assert unexplained == []


def test_every_api_that_is_served_and_every_reason_is_about_an_api_of_kafka() -> None:
    names = {api.api_key: api.name for api in KAFKA}
    assert {key: handler.api_key.title for key, handler in API_TABLE.items()}.items() <= (
        names.items()
    )
    assert REASONS.keys() <= set(names.values())
