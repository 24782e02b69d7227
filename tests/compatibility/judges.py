"""The table of judges in docs/compatibility.md: client, version, what was tried, result.

Every test module with a client that is not ours, or with a broker that is not ours, has a line
here. `make judges` runs them and keeps the counts in `judges.json`;
`python -m tests.compatibility.judges` writes the page from that.
`tests/compatibility/recording.py` does the counting.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from xml.etree import ElementTree

from tests.compatibility.api_table import PAGE

TESTS: Final = Path(__file__).parents[1]
COUNTS: Final = Path(__file__).with_name("judges.json")
FOLDERS: Final = ("interop", "peers")
BEGIN: Final = "<!-- judges: written by python -m tests.compatibility.judges -->\n"
END: Final = "<!-- end of the judges -->\n"

JAVA, TOOLS, STREAMS = "Apache Kafka's Java clients", "Apache Kafka's tools", "Kafka Streams"
OLD_JAVA = "Apache Kafka's Java clients, older"
CONNECT, MIRROR = "Kafka Connect", "MirrorMaker 2"
CONFLUENT, KAFKA_PYTHON, AIOKAFKA = "confluent-kafka", "kafka-python", "aiokafka"
OURS = "minikafka_client"
OTHERS: Final = (CONFLUENT, KAFKA_PYTHON, AIOKAFKA)


class Judge(NamedTuple):
    """What a test module tries.

    Attributes:
        clients: whose work is judged; of several, a test counts for those that it names.
        what: for the page.
        broker: whose broker they work with.
        each_for_all: every test uses all of the clients, by way of a helper.
    """

    clients: tuple[str, ...]
    what: str
    broker: Literal["minikafka", "Apache Kafka"] = "minikafka"
    each_for_all: bool = False


JUDGES: Final = {
    "interop/test_records.py": Judge(
        OTHERS, "records of every shape, five compressions, timestamps of both kinds"
    ),
    "interop/test_producers.py": Judge(OTHERS, "idempotent producers, size limits"),
    "interop/test_offsets.py": Judge(OTHERS, "commits, seeks, resets, offsets by time"),
    "interop/test_groups.py": Judge(
        (CONFLUENT, KAFKA_PYTHON), "groups that members join and leave, eager and cooperative"
    ),
    "interop/test_groups_aiokafka.py": Judge((AIOKAFKA,), "groups, alone and with other clients"),
    "interop/test_static_members.py": Judge(
        (CONFLUENT, KAFKA_PYTHON), "static members (KIP-345), members that die"
    ),
    "interop/test_consumer_groups.py": Judge(
        (CONFLUENT,), "consumer groups (KIP-848), migration from classic and back"
    ),
    "interop/test_share_groups.py": Judge((CONFLUENT,), "share groups (KIP-932, its preview)"),
    "interop/test_transactions.py": Judge(
        OTHERS, "transactions, fencing, timeouts, administrators"
    ),
    "interop/test_transactions_of_our_client.py": Judge(
        OTHERS, "readers of our producers' transactions", each_for_all=True
    ),
    "interop/test_restarts.py": Judge(OTHERS, "load while the broker is killed and restarted"),
    "interop/test_topics_that_change.py": Judge(
        OTHERS, "topics that appear, grow, lose records and vanish"
    ),
    "interop/test_telemetry.py": Judge((CONFLUENT,), "telemetry (KIP-714)"),
    "interop/test_admin_confluent_kafka.py": Judge((CONFLUENT,), "administration"),
    "interop/test_admin_kafka_python.py": Judge((KAFKA_PYTHON,), "administration"),
    "interop/test_admin_of_a_cluster.py": Judge(
        (CONFLUENT, KAFKA_PYTHON), "administration of three brokers"
    ),
    "interop/test_tls_clients.py": Judge(OTHERS, "TLS, certificates of clients"),
    "interop/test_sasl_clients.py": Judge(OTHERS, "SASL: PLAIN, SCRAM, OAUTHBEARER, sessions"),
    "interop/test_acls.py": Judge((CONFLUENT, KAFKA_PYTHON), "ACLs"),
    "peers/test_java_clients.py": Judge(
        (JAVA,), "producers, consumers, classic groups (four assignors), consumer groups (KIP-848)"
    ),
    "peers/test_java_transactions.py": Judge((JAVA,), "transactions, fencing, timeouts"),
    "peers/test_java_share_groups.py": Judge((JAVA,), "share groups (KIP-932); kafka-share-groups"),
    "peers/test_java_endures.py": Judge((JAVA,), "load while the broker is killed and restarted"),
    "peers/test_java_admin.py": Judge((JAVA,), "administration"),
    "peers/test_java_telemetry.py": Judge((JAVA,), "telemetry (KIP-714); kafka-configs"),
    "peers/test_java_security.py": Judge(
        (JAVA,), "SASL: PLAIN, SCRAM, OAUTHBEARER, sessions; kafka-configs for users"
    ),
    "peers/test_java_acls.py": Judge((TOOLS,), "kafka-acls"),
    "peers/test_java_quorum.py": Judge((TOOLS,), "kafka-metadata-quorum, kafka-features"),
    "peers/test_quotas.py": Judge((TOOLS,), "kafka-configs for users, clients and addresses"),
    "peers/test_java_tools.py": Judge(
        (TOOLS,), "console, groups, topics, configs, performance and verifiable clients"
    ),
    "peers/test_java_dump_log.py": Judge((TOOLS,), "kafka-dump-log reads every file of a log"),
    "peers/test_kafka_streams.py": Judge(
        (STREAMS,), "exactly_once_v2 in the classic protocol; an instance and a broker killed"
    ),
    "peers/test_streams_groups.py": Judge((STREAMS,), "streams groups (KIP-1071)"),
    "peers/test_kafka_connect.py": Judge(
        (CONNECT,), "distributed worker, exactly-once source, file connectors; worker killed"
    ),
    "peers/test_mirror_maker.py": Judge(
        (MIRROR,), "topics and offsets of groups, from Apache Kafka 4.4 and to it"
    ),
    "peers/test_java_old_clients.py": Judge(
        (OLD_JAVA,), "producers, transactions, consumers in both protocols, with newer members"
    ),
    "peers/test_mixed_groups.py": Judge(
        (OURS,), "groups together with other clients", "Apache Kafka"
    ),
    "peers/test_transaction_log.py": Judge(
        (OURS,), "the transaction log has the same records", "Apache Kafka"
    ),
    "peers/test_client_produces.py": Judge((OURS,), "producers", "Apache Kafka"),
    "peers/test_client_consumes.py": Judge((OURS,), "consumers, classic groups", "Apache Kafka"),
    "peers/test_client_consumer_groups.py": Judge(
        (OURS,), "consumer groups (KIP-848)", "Apache Kafka"
    ),
    "peers/test_client_shares.py": Judge((OURS,), "share groups (KIP-932)", "Apache Kafka"),
    "peers/test_client_administers.py": Judge((OURS,), "administration", "Apache Kafka"),
    "peers/test_client_security.py": Judge((OURS,), "TLS, SASL PLAIN and SCRAM", "Apache Kafka"),
    "peers/test_client_endures.py": Judge(
        (OURS,), "load while the broker is killed and restarted", "Apache Kafka"
    ),
    "peers/test_client_prepares.py": Judge((OURS,), "prepared transactions", "Apache Kafka"),
    "peers/test_client_truncation.py": Judge(
        (OURS,), "truncated logs, topics made again", "Apache Kafka"
    ),
    "peers/test_hanging.py": Judge((OURS,), "hanging transactions are found", "Apache Kafka"),
    "peers/test_patterns_on_apache_kafka.py": Judge(
        (OURS,), "delivery patterns of killed workers", "Apache Kafka"
    ),
    "peers/test_spark_sink.py": Judge((OURS,), "what the Spark sink does", "Apache Kafka"),
    "peers/test_cli_groups.py": Judge((OURS,), "the `minikafka` command: groups", "Apache Kafka"),
}

NO_JUDGES: Final = {
    "interop/test_fuzz_campaign.py": "hostile bytes",
    "interop/test_fuzz_live.py": "hostile bytes",
    "interop/test_large_requests.py": "requests of no client",
    "peers/test_apache_kafka_starts.py": "the fixture",
}
"""Modules without a judge, and what they have instead."""

BY_HAND: Final = (
    ("franz-go", "1.22", "its `pkg/kgo` suite with chaos, transactional ETL of 500,000 records"),
    ("librdkafka", "2.15.1", "its live tests"),
    ("sarama", "1.61", "its functional tests, five brokers behind toxiproxy"),
    ("kafka-go", "0.4.51", "its tests"),
    ("confluent-kafka-go", "2.11", "its integration tests"),
    ("kafka-python", "3.0.12", "its integration tests"),
)
"""Client, version, and which suite of its own was run against our brokers."""

BY_HAND_RESULTS: Final = {
    "franz-go": "454 passed, 0 failed, on one broker and on three",
    "librdkafka": "all but those that need an authorizer, Java producers or Kafka's scripts",
    "sarama": "65 of 66 (the rest: quotas)",
    "kafka-go": "all but features left out, and a few whose expectations are not Kafka's",
    "confluent-kafka-go": "35 passed, 3 skipped, 2 left out; two fail by themselves",
    "kafka-python": "54 of 56 (ACLs; one for old brokers)",
}


class Row(NamedTuple):
    """A line of the table."""

    client: str
    version: str
    broker: str
    what: str
    result: str


def version_of(client: str) -> str:
    """The version of a client that the tests use here."""
    if client in OTHERS:
        return metadata.version(client)
    if client == OURS:
        return metadata.version("minikafka")
    poms = {JAVA: "pom.xml", OLD_JAVA: "pom-old-clients.xml", TOOLS: "pom-tools.xml"}
    return _maven_version(poms.get(client, "pom-libraries.xml"))


def _maven_version(pom: str) -> str:
    name = "{http://maven.apache.org/POM/4.0.0}"
    root = ElementTree.parse(TESTS / "peers" / pom).getroot()
    found = root.findtext(f"{name}properties/{name}kafka.version")
    assert found is not None, f"{pom} has no property kafka.version"
    return found


def modules() -> set[str]:
    """The test modules that need a line here."""
    return {
        f"{folder}/{path.name}" for folder in FOLDERS for path in (TESTS / folder).glob("test_*.py")
    }


def kept() -> dict[str, dict[str, Any]]:
    """What the last runs counted: by module and client the version, `passed` and `failed`."""
    counts: dict[str, dict[str, Any]] = json.loads(COUNTS.read_text(encoding="utf-8"))
    return counts


def rows() -> Iterator[Row]:
    """The table, as the kept counts have it."""
    counts = kept()
    for module, judge in JUDGES.items():
        for client in judge.clients:
            count = counts[module][client]
            result = f"{count['passed']} passed"
            if count["failed"]:
                result += f", {count['failed']} failed"
            broker: str = judge.broker
            if broker == "Apache Kafka":
                broker += f" {_maven_version('pom.xml')}"
            yield Row(client, count["version"], broker, judge.what, result)


def section() -> str:
    """Both tables with the markers around them."""
    shown = sorted(rows(), key=lambda row: (row.broker != "minikafka", row.client))
    lines = [
        "| client | version | broker | what was tried | tests |\n",
        "|---|---|---|---|---|\n",
        *("| " + " | ".join(row) + " |\n" for row in shown),
        "\n",
        "Run by hand against one broker and three, before the newer kinds of groups; what needs\n",
        "security, quotas, KIP-848 or share groups was left out:\n",
        "\n",
        "| client | version | its own suite | result |\n",
        "|---|---|---|---|\n",
        *(f"| {' | '.join(each)} | {BY_HAND_RESULTS[each[0]]} |\n" for each in BY_HAND),
    ]
    return BEGIN + "".join(lines) + END


def with_section(page: str) -> str:
    """The page with its tables replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + section() + after


if __name__ == "__main__":
    PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
