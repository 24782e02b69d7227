"""A pytest plugin that keeps what the judges said: `pytest -p tests.compatibility.recording`.

At the end of a run it replaces the counts of the modules that ran in `judges.json`, so a part of
the judges can be asked again. `make judges` asks all of them.
"""

from __future__ import annotations

import inspect
import json
from collections import defaultdict
from collections.abc import Iterable

import pytest

from tests.compatibility.judges import (
    AIOKAFKA,
    CONFLUENT,
    COUNTS,
    JUDGES,
    KAFKA_PYTHON,
    Judge,
    kept,
    version_of,
)

_PROPERTY = "judged"
_BROKERS = {"apache-kafka": "Apache Kafka", "minikafka": "minikafka"}
"""The values of the fixture `bootstrap` in tests/peers."""

_SPELLINGS = {
    CONFLUENT: ("confluent", "librdkafka"),
    KAFKA_PYTHON: ("kafka_python", "kafka-python", "kafka.kafka"),
    AIOKAFKA: ("aiokafka",),
}
"""How a test's source names a client, in lower case."""

Counts = dict[str, dict[str, int]]


def judged_clients(judge: Judge, params: dict[str, object], source: str) -> tuple[str, ...]:
    """For which clients a test with these parameters and this source counts."""
    if _BROKERS.get(str(params.get("bootstrap")), judge.broker) != judge.broker:
        return ()  # the control: the other broker
    if len(judge.clients) == 1 or judge.each_for_all:
        return judge.clients
    named = {str(value) for value in _flat(params.values())} & _SPELLINGS.keys()
    if not named:
        shown = source.lower()
        named = {
            client
            for client, spellings in _SPELLINGS.items()
            if "CLIENTS" in source or any(spelling in shown for spelling in spellings)
        }
    return tuple(one for one in judge.clients if one in named)


def _flat(values: Iterable[object]) -> Iterable[object]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _flat(value)
        else:
            yield value


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Note with each test for whom it counts; the note travels with its report."""
    for item in items:
        module = "/".join(item.path.parts[-2:])
        if module in JUDGES:
            call = getattr(item, "callspec", None)
            params = {} if call is None else call.params
            item.user_properties += [
                (_PROPERTY, (module, client))
                for client in judged_clients(JUDGES[module], params, _source(item))
            ]


def _source(item: pytest.Item) -> str:
    function = getattr(item, "function", None)
    return "" if function is None else inspect.getsource(function)


class Recording:
    """Counts the reports of a run."""

    def __init__(self) -> None:
        self.counts: dict[str, Counts] = defaultdict(
            lambda: defaultdict(lambda: {"passed": 0, "failed": 0})
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the test itself if it passed, and whatever failed."""
        if report.failed or (report.when == "call" and report.passed):
            for name, value in report.user_properties:
                if name == _PROPERTY:
                    assert isinstance(value, tuple | list)
                    module, client = value
                    self.counts[module][client]["failed" if report.failed else "passed"] += 1

    def pytest_sessionfinish(self) -> None:
        """Keep the counts."""
        every = kept() if COUNTS.exists() else {}
        for module, counts in self.counts.items():
            every[module] = {
                client: {"version": version_of(client), **count} for client, count in counts.items()
            }
        text = json.dumps({module: every[module] for module in sorted(every)}, indent=2)
        COUNTS.write_text(text + "\n", encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Record where the reports arrive: not in the workers of xdist."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recording())
