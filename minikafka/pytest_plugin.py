"""Fixtures for tests that need a Kafka.

pytest finds them by itself once minikafka is installed: ``kafka_broker``, ``kafka_cluster``,
``kafka_secure_broker``, ``kafka_topic``, ``kafka_clean`` and ``kafka_simulation``. Nothing is
started, and next to nothing is imported, before a test uses one. ``docs/testing.md`` has recipes.

With ``--kafka-bootstrap HOST:PORT`` the same tests run against another Kafka; those that need what
only ours can do (faults, time, a reset) are skipped then.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from minikafka.testing import Broker, Cluster
    from minikafka.testing.faults import Controlled
    from minikafka.testing.secure import SecureBroker
    from minikafka.testing.simulation import Fault, Faults, Guarantee, Program

_TOPIC_NAME_LENGTH_MAX = 100
_LOG_CHARACTERS_MAX = 20_000
_BOOTSTRAP_VARIABLES = ("KAFKA_BOOTSTRAP_SERVERS", "MINIKAFKA_BOOTSTRAP")
_started = pytest.StashKey["list[Broker | Cluster]"]()
_log_sizes = pytest.StashKey["dict[str, int]"]()
_counter = itertools.count(1)


class OtherKafka:
    """The Kafka that ``--kafka-bootstrap`` names.

    Attributes:
        bootstrap: ``HOST:PORT,...``, for clients.
    """

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __getattr__(self, name: str) -> NoReturn:
        pytest.skip(f"`{name}` needs minikafka, and --kafka-bootstrap={self.bootstrap} was given")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options, on the command line and in the configuration file."""
    group = parser.getgroup("minikafka", "Kafka for tests (minikafka)")
    group.addoption(
        "--kafka-set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the brokers that fixtures start, e.g. num.partitions=3",
    )
    group.addoption(
        "--kafka-bootstrap",
        metavar="HOST:PORT,...",
        help="use this Kafka, and start none; tests of faults and time are skipped",
    )
    group.addoption(
        "--kafka-seeds",
        type=int,
        metavar="N",
        help="run each simulation (kafka_simulation) with seeds 0 to N-1",
    )
    group.addoption(
        "--kafka-seed",
        type=int,
        metavar="SEED",
        help="run each simulation (kafka_simulation) with this seed only, and print its story",
    )
    parser.addini("kafka_set", "settings of brokers that fixtures start, one a line", "linelist")
    parser.addini("kafka_bootstrap", "use this Kafka, and start none", default="")


def pytest_configure(config: pytest.Config) -> None:
    """The marker of `kafka_topic`."""
    config.stash[_started] = []
    config.addinivalue_line(
        "markers",
        "kafka_topic(partitions=1, configs=None): how the fixture kafka_topic makes its topic",
    )


def _settings(config: pytest.Config) -> dict[str, str]:
    settings: dict[str, str] = {}
    given: list[str] = config.getini("kafka_set") + config.getoption("--kafka-set", [])
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise pytest.UsageError(f"--kafka-set {text}: write NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings


def _other_bootstrap(config: pytest.Config) -> str:
    bootstrap: str = config.getoption("--kafka-bootstrap") or config.getini("kafka_bootstrap")
    return bootstrap


def _run(config: pytest.Config, kafka: Any) -> Generator[Any]:
    """Start it, and have it where the hooks and child processes find it."""
    with kafka, pytest.MonkeyPatch.context() as patch:
        for name in _BOOTSTRAP_VARIABLES:
            patch.setenv(name, kafka.bootstrap)
        config.stash[_started].append(kafka)
        yield kafka
        config.stash[_started].remove(kafka)


@pytest.fixture(scope="session")
def kafka_broker(pytestconfig: pytest.Config) -> Generator[Broker | OtherKafka]:
    """A broker in a process of its own, for all tests (of an xdist worker).

    Attributes: ``bootstrap``, and what `minikafka.testing.Broker` has: faults, requests, the clock.
    Faults and recorded requests are forgotten after each test; topics stay, so take the names from
    ``kafka_topic``, or use ``kafka_clean``.
    """
    if other := _other_bootstrap(pytestconfig):
        yield OtherKafka(other)
        return
    from minikafka import testing

    yield from _run(pytestconfig, testing.broker(_settings(pytestconfig)))


@pytest.fixture(scope="session")
def kafka_cluster(pytestconfig: pytest.Config) -> Generator[Cluster | OtherKafka]:
    """Three brokers, nodes 1 to 3, which a test may kill, pause and cut off.

    All tests share the processes; after each one all nodes run again, and hear each other.
    """
    if other := _other_bootstrap(pytestconfig):
        yield OtherKafka(other)
        return
    from minikafka import testing

    yield from _run(pytestconfig, testing.cluster(3, _settings(pytestconfig)))


@pytest.fixture(scope="session")
def kafka_secure_broker(pytestconfig: pytest.Config) -> Generator[SecureBroker | OtherKafka]:
    """A broker with TLS, SASL and ACLs, for all tests, in a process of its own.

    ``kafka_secure_broker.client("alice")`` is a configuration for a client of that user; what it
    may do, the test says with ``allow`` and ``deny``, until its end. The certificates are made
    with trustme: ``pip install 'minikafka[secure-testing]'``.
    """
    if other := _other_bootstrap(pytestconfig):
        yield OtherKafka(other)
        return
    from minikafka import testing

    started = pytestconfig.stash[_started]
    try:
        kafka = testing.secure_broker(_settings(pytestconfig)).__enter__()
    except testing.BrokerStartError as error:
        pytest.fail(str(error), pytrace=False)
    try:
        started.append(kafka)
        yield kafka
        started.remove(kafka)
    finally:
        kafka.__exit__(None, None, None)


@pytest.fixture
def kafka_topic(
    request: pytest.FixtureRequest, kafka_broker: Broker | OtherKafka
) -> Generator[str]:
    """The name of a topic that is new, and is deleted after the test.

    It has one partition; ``@pytest.mark.kafka_topic(partitions=3, configs={...})`` says otherwise.
    """
    from minikafka.testing.topics import create_topic, delete_topic

    marker = request.node.get_closest_marker("kafka_topic")
    options: dict[str, Any] = {} if marker is None else dict(marker.kwargs)
    words = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:_TOPIC_NAME_LENGTH_MAX]
    name = f"{words.strip('-')}-{os.getpid()}-{next(_counter)}"
    create_topic(kafka_broker.bootstrap, name, **options)
    yield name
    delete_topic(kafka_broker.bootstrap, name)


@pytest.fixture
def kafka_clean(kafka_broker: Broker | OtherKafka) -> Broker | OtherKafka:
    """``kafka_broker`` without topics, groups and transactions, as if it were a new one.

    It comes before all other fixtures of the test, in whatever order they are named.
    """
    kafka_broker.reset()
    return kafka_broker


def pytest_itemcollected(item: pytest.Item) -> None:
    """Clean before any other fixture of the test, or its topic would be gone again."""
    names = getattr(item, "fixturenames", [])
    if "kafka_clean" in names:
        names.remove("kafka_clean")
        names.insert(0, "kafka_clean")


class KafkaSimulation:
    """Simulates programs, as the command line says: what ``kafka_simulation`` is."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def __call__(
        self,
        program: Program,
        *,
        seeds: int = 20,
        faults: Faults | Sequence[Fault] | None = None,
        guarantee: Guarantee = "at_least_once",
        in_order: bool = True,
        settings: Mapping[str, str | int | float | bool] | None = None,
    ) -> None:
        """Run a program with many seeds; the test fails with the story of the first that fails.

        The arguments are those of `minikafka.testing.simulation.check`; ``--kafka-seeds`` and
        ``--kafka-seed`` replace ``seeds``.
        """
        from minikafka.testing import simulation

        count: int | None = self._item.config.getoption("--kafka-seeds")
        seed: int | None = self._item.config.getoption("--kafka-seed")
        failure = ""
        try:
            simulation.check(
                program,
                seeds=(seeds if count is None else count) if seed is None else [seed],
                faults=simulation.Faults() if faults is None else faults,
                guarantee=guarantee,
                in_order=in_order,
                settings=settings,
                on_run=None if seed is None else self._print,
            )
        except simulation.SimulationFailed as failed:
            again = f"pytest --kafka-seed {failed.report.seed} '{self._item.nodeid}'"
            failure = f"{failed}\nrepeat it: {again}"
        if failure:
            pytest.fail(failure, pytrace=False)

    def _print(self, report: object) -> None:
        capture: Any = self._item.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            sys.stdout.write(f"\n{report}\n")


@pytest.fixture
def kafka_simulation(request: pytest.FixtureRequest) -> KafkaSimulation:
    """Runs a trio program against simulated brokers: ``kafka_simulation(program, seeds=50)``.

    See `minikafka.testing.simulation`. No broker is started; time passes only inside.
    """
    return KafkaSimulation(request.node)


# --- between tests, and when one fails ---


def _brokers(kafka: Controlled) -> dict[str, Broker]:
    from minikafka.testing import Broker, Cluster

    if isinstance(kafka, Cluster):
        return {broker.name: broker for broker in kafka.nodes.values()}
    assert isinstance(kafka, Broker)
    return {kafka.name: kafka}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note how long the logs are, so that a report shows what the test added."""
    item.stash[_log_sizes] = {
        name: len(broker.log())
        for kafka in item.config.stash[_started]
        for name, broker in _brokers(kafka).items()
    }


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Undo what the test did to brokers, before its fixtures use them once more."""
    for kafka in item.config.stash[_started]:
        kafka.restore()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the brokers have logged during a test that failed."""
    report = yield
    if report.failed:
        before = item.stash.get(_log_sizes, dict[str, int]())
        for kafka in item.config.stash[_started]:
            for name, broker in _brokers(kafka).items():
                added = broker.log()[before.get(name, 0) :].strip()
                if added:
                    report.sections.append((f"log of {name}", added[-_LOG_CHARACTERS_MAX:]))
    return report
