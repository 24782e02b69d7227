"""Apache Kafka's kafka-acls on our broker."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.kit.live import JudgedBroker
from tests.peers.test_java_tools import run_tool

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

ACLS = "org.apache.kafka.tools.AclCommand"
SETTINGS = {"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}


@pytest.fixture
def secure(jars: object, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    del jars
    with JudgedBroker(tmp_path_factory.mktemp("secure"), SETTINGS) as broker:
        yield broker.bootstrap
        broker.check_log()


def test_kafka_acls_adds_lists_and_removes_rules(secure: str) -> None:
    here = ("--bootstrap-server", secure)
    who = ("--allow-principal", "User:alice")
    run_tool(ACLS, *here, "--add", *who, "--producer", "--topic", "orders", "--idempotent")
    prefix = ("--topic", "or", "--resource-pattern-type", "prefixed")
    run_tool(ACLS, *here, "--add", "--deny-principal", "User:bob", "--operation", "All", *prefix)
    match = ("--topic", "orders", "--resource-pattern-type", "match")
    listed = run_tool(ACLS, *here, "--list", *match)
    for words in (
        "operation=WRITE, permissionType=ALLOW",
        "operation=CREATE, permissionType=ALLOW",
        "principal=User:bob, host=*, operation=ALL, permissionType=DENY",
    ):
        assert words in listed
    assert "operation=IDEMPOTENT_WRITE" in run_tool(ACLS, *here, "--list", "--cluster")
    run_tool(ACLS, *here, "--remove", "--force", *who, "--producer", "--topic", "orders")
    listed = run_tool(ACLS, *here, "--list", *match)
    assert "User:alice" not in listed
    assert "User:bob" in listed
