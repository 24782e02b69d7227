"""Both brokers, Apache Kafka's and ours, and the Java client."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fields import ZERO_UUID
from minikafka.protocol.messages import metadata
from tests.kit.live import JudgedBroker
from tests.kit.waiting import work_until
from tests.kit.wire import MakeTopic, Wire, topic_named_after
from tests.peers import java_runtime
from tests.peers.apache_kafka import ApacheKafka, shared
from tests.peers.java_clients import JavaClients

APACHE, OURS = BROKERS = ("apache-kafka", "minikafka")
RUNNING = pytest.StashKey[ApacheKafka]()


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all processes of a test run share."""
    folder = tmp_path_factory.getbasetemp()
    return folder if worker_id == "master" else folder.parent


@pytest.fixture(scope="session")
def jars() -> Path:
    """Apache Kafka's jars; without Java and Maven the test is skipped (on CI that is a failure)."""
    reason = java_runtime.missing()
    if reason is not None:
        pytest.skip(reason)
    return java_runtime.jars()


@pytest.fixture(scope="session")
def apache_kafka(jars: Path, run_folder: Path, pytestconfig: pytest.Config) -> ApacheKafka:
    """Apache Kafka, started once for all processes; use topics and groups of your own."""
    node = shared(run_folder)
    pytestconfig.stash[RUNNING] = node
    return node


@pytest.fixture(scope="session")
def java(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[JavaClients]:
    """The Java clients, in one JVM for each process."""
    clients = JavaClients(tmp_path_factory.mktemp("java") / "clients.log")
    yield clients
    clients.close()


@pytest.fixture(scope="session")
def our_broker(tmp_path_factory: pytest.TempPathFactory) -> Generator[JudgedBroker]:
    """`minikafka serve`, one for each process."""
    settings = {
        "group.min.session.timeout.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "200",
        "group.consumer.heartbeat.interval.ms": "200",
    }
    with JudgedBroker(tmp_path_factory.mktemp("minikafka"), settings) as broker:
        yield broker


@pytest.fixture(params=BROKERS)
def bootstrap(request: pytest.FixtureRequest) -> Generator[str]:
    """The address of each of the two brokers, one after the other."""
    if request.param == APACHE:
        node: ApacheKafka = request.getfixturevalue("apache_kafka")
        yield node.bootstrap
    else:
        broker: JudgedBroker = request.getfixturevalue("our_broker")
        yield broker.bootstrap
        broker.check_log()


@pytest.fixture
def ours(our_broker: JudgedBroker) -> Generator[str]:
    """The address of our broker; a test during which it logs a bug fails."""
    yield our_broker.bootstrap
    our_broker.check_log()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for topics and groups that no other test uses."""
    return topic_named_after(request)


@pytest.fixture
def make_topic(request: pytest.FixtureRequest, name: str) -> MakeTopic:
    """Create the topic ``name``: ``make_topic(partitions, suffix="", retention_ms=...)``."""
    which = "bootstrap" if "bootstrap" in request.fixturenames else "ours"
    address: str = request.getfixturevalue(which)

    def make(partitions: int = 1, *, suffix: str = "", **settings: object) -> str:
        topic = name + suffix
        with Wire(address) as wire:
            wire.create_topic(topic, partitions, settings)
            # Apache Kafka's broker applies its controller's decisions a little later.
            work_until(lambda: _has_leaders(wire, topic, partitions), what=f"topic {topic}")
        return topic

    return make


@pytest.fixture
def topic(request: pytest.FixtureRequest, make_topic: MakeTopic) -> str:
    """A topic with one partition, or `PARTITIONS` of the test's module."""
    return make_topic(getattr(request.module, "PARTITIONS", 1))


def _has_leaders(wire: Wire, topic: str, partitions: int) -> bool:
    asked = [metadata.RequestTopic(name=topic, topic_id=ZERO_UUID)]
    request = metadata.Request(topics=asked, allow_auto_topic_creation=False)
    (described,) = wire.ask(request, 12, metadata.Response).topics
    led = [each for each in described.partitions if each.error_code == ErrorCode.NONE]
    return len(led) == partitions


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of Apache Kafka's log with a failed test, and where the rest is."""
    report = yield
    node = item.config.stash.get(RUNNING, None)
    if report.failed and node is not None:
        report.sections.append((f"Apache Kafka's log, {node.log_path}", node.log_end()))
    return report
