"""docs/compatibility.md shows what the judges said, and no judge is missing."""

import pytest

from tests.compatibility.api_table import PAGE
from tests.compatibility.judges import (
    AIOKAFKA,
    BY_HAND,
    BY_HAND_RESULTS,
    CONFLUENT,
    JAVA,
    JUDGES,
    KAFKA_PYTHON,
    NO_JUDGES,
    OTHERS,
    OURS,
    Judge,
    kept,
    modules,
    version_of,
    with_section,
)
from tests.compatibility.recording import judged_clients


def test_the_page_shows_what_the_judges_said() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_section(page), "run python -m tests.compatibility.judges"


def test_every_module_with_a_judge_is_in_the_table() -> None:
    assert modules() == JUDGES.keys() | NO_JUDGES.keys()


def test_every_judge_was_asked_in_the_version_of_the_tests_and_nothing_failed() -> None:
    counts = kept()
    shown = {
        (module, client): (count["version"], count["passed"] > 0, count["failed"])
        for module, clients in counts.items()
        for client, count in clients.items()
    }
    wanted = {
        (module, client): (version_of(client), True, 0)
        for module, judge in JUDGES.items()
        for client in judge.clients
    }
    assert shown == wanted, "run make judges"


def test_every_suite_run_by_hand_has_a_result() -> None:
    assert {client for client, _, _ in BY_HAND} == BY_HAND_RESULTS.keys()


@pytest.mark.parametrize(
    ("judge", "params", "source", "clients"),
    [
        (Judge((JAVA,), ""), {}, "", (JAVA,)),
        (Judge(OTHERS, ""), {}, "", ()),
        (Judge(OTHERS, "", each_for_all=True), {}, "", OTHERS),
        (Judge(OTHERS, ""), {"client": CONFLUENT, "codec": "gzip"}, "CLIENTS", (CONFLUENT,)),
        (Judge((AIOKAFKA,) * 2, ""), {"client": CONFLUENT}, "", ()),
        (
            Judge(OTHERS, ""),
            {"members": (KAFKA_PYTHON, (CONFLUENT,))},
            "",
            (CONFLUENT, KAFKA_PYTHON),
        ),
        (Judge(OTHERS, ""), {}, "for each in CLIENTS:", OTHERS),
        (Judge(OTHERS, ""), {}, "kafka.KafkaConsumer()", (KAFKA_PYTHON,)),
        (Judge(OTHERS, ""), {}, "consume(CONFLUENT, topic)", (CONFLUENT,)),
        (Judge((JAVA,), ""), {"bootstrap": "minikafka"}, "", (JAVA,)),
        (Judge((JAVA,), ""), {"bootstrap": "apache-kafka"}, "", ()),
        (Judge((OURS,), "", "Apache Kafka"), {"bootstrap": "apache-kafka"}, "", (OURS,)),
        (Judge((OURS,), "", "Apache Kafka"), {"bootstrap": "minikafka"}, "", ()),
    ],
)
def test_a_test_counts_for_the_clients_that_it_names_on_their_broker(
    judge: Judge, params: dict[str, object], source: str, clients: tuple[str, ...]
) -> None:
    assert judged_clients(judge, params, source) == clients
