"""ACLs: other clients' admin clients create, find and delete them, and other clients obey them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import admin as rd
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import NoError, TopicAuthorizationFailedError

from tests.kit.live import JudgedBroker
from tests.kit.wire import Wire

pytestmark = pytest.mark.interop

# The module's stubs export nothing but the client; but these names are documented.
_names: Any = rd
SETTINGS = {"authorizer.class.name": "standard", "allow.everyone.if.no.acl.found": "true"}
SECONDS = 20


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """A broker on which everybody may do everything that no rule is about."""
    with JudgedBroker(tmp_path_factory.mktemp("secure"), SETTINGS) as broker:
        yield broker.bootstrap
        broker.check_log()


def rd_rule(cls: str, name: str | None, principal: str | None, permission: str) -> Any:
    any_or = "ANY" if cls == "AclBindingFilter" else "READ"
    return getattr(_names, cls)(
        _names.ResourceType.TOPIC,
        name,
        _names.ResourcePatternType.LITERAL,
        principal,
        None if cls == "AclBindingFilter" else "*",
        _names.AclOperation[any_or],
        _names.AclPermissionType[permission],
    )


def test_librdkafka_creates_finds_and_deletes_rules(secure: str, name: str) -> None:
    admin: Any = AdminClient({"bootstrap.servers": secure})
    rule = rd_rule("AclBinding", name, "User:alice", "ALLOW")
    for future in admin.create_acls([rule]).values():
        assert future.result(SECONDS) is None
    wanted = rd_rule("AclBindingFilter", name, None, "ANY")
    assert admin.describe_acls(wanted).result(SECONDS) == [rule]
    (deleted,) = admin.delete_acls([wanted]).values()
    assert deleted.result(SECONDS) == [rule]
    assert admin.describe_acls(wanted).result(SECONDS) == []


def test_kafka_python_creates_finds_and_deletes_rules(secure: str, name: str) -> None:
    admin: Any = KafkaAdminClient(bootstrap_servers=secure)
    pattern = ResourcePattern(ResourceType.TOPIC, name)
    rule = ACL("User:alice", "*", ACLOperation.WRITE, ACLPermissionType.ALLOW, pattern)
    created = admin.create_acls([rule])
    assert (created["succeeded"], created["failed"]) == ([rule], [])
    wanted = ACLFilter(
        None,
        None,
        ACLOperation.ANY,
        ACLPermissionType.ANY,
        ResourcePatternFilter(ResourceType.TOPIC, name, pattern.pattern_type),
    )
    found, error = admin.describe_acls(wanted)
    assert (found, error) == ([rule], NoError)
    ((_, matching, error),) = admin.delete_acls([wanted])
    assert (matching, error) == ([rule], NoError)
    admin.close()


def deny(bootstrap: str, topic: str) -> None:
    with Wire(bootstrap) as wire:
        wire.create_topic(topic, 1, {})
    admin: Any = AdminClient({"bootstrap.servers": bootstrap})
    (future,) = admin.create_acls([rd_rule("AclBinding", topic, "User:alice", "ALLOW")]).values()
    future.result(SECONDS)


def test_librdkafka_is_told_that_it_may_not_write(secure: str, name: str) -> None:
    deny(secure, name)
    reports: list[Any] = []
    producer = Producer({"bootstrap.servers": secure})
    producer.produce(name, b"v", on_delivery=lambda error, _: reports.append(error))
    producer.flush(SECONDS)
    assert [error.name() for error in reports] == ["TOPIC_AUTHORIZATION_FAILED"]


def test_kafka_python_is_told_that_it_may_not_write(secure: str, name: str) -> None:
    deny(secure, name)
    producer: Any = KafkaProducer(bootstrap_servers=secure, max_block_ms=1000 * SECONDS)
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send(name, b"v").get(SECONDS)
    producer.close(0)
