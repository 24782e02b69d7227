"""`minikafka acl` and the admin clients' ACLs, against a broker with an authorizer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minikafka import testing
from minikafka_client import (
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResourceType,
    BrokerError,
)
from minikafka_client import AdminClient as TrioAdminClient
from minikafka_client.sync import AdminClient
from tests.cli.conftest import CommandLine

READS = Acl(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)
WRITES = READS._replace(
    operation=AclOperation.WRITE, resource_name="or", pattern=AclPattern.PREFIXED
)


@pytest.fixture(scope="module")
def secure() -> Iterator[CommandLine]:
    settings = {"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}
    with testing.Broker(settings=settings) as broker:
        yield CommandLine(broker.bootstrap)


@pytest.fixture
def acls(secure: CommandLine) -> Iterator[CommandLine]:
    yield secure
    with AdminClient(secure.bootstrap) as admin:
        admin.delete_acls([AclFilter()])


def rows(printed: str) -> list[list[str]]:
    return [line.split() for line in printed.splitlines()[1:]]


def test_rules_are_added_listed_and_removed(acls: CommandLine) -> None:
    words = ["--allow-principal", "User:alice", "--topic", "orders"]
    added = acls.ok("acl", "add", *words, "--operation", "read", "--operation", "Write")
    reads = ["topic", "orders", "literal", "User:alice", "*", "read", "allow"]
    writes = [*reads[:5], "write", "allow"]
    assert rows(added) == [reads, writes]
    assert rows(acls.ok("acl", "list")) == [reads, writes]
    assert rows(acls.ok("acl", "list", "--operation", "write")) == [writes]
    assert rows(acls.ok("acl", "remove", *words, "--operation", "write")) == [writes]
    assert rows(acls.ok("acl", "list")) == [reads, writes]
    assert rows(acls.ok("acl", "remove", *words, "--operation", "write", "--yes")) == [writes]
    assert [one["operation"] for one in acls.json("acl", "list")["acls"]] == ["read"]


def test_a_prefix_and_a_denial_apply_to_what_they_match(acls: CommandLine) -> None:
    acls.ok(
        *("acl", "add", "--deny-principal", "User:*", "--deny-host", "10.0.0.1"),
        *("--operation", "all", "--topic", "or", "--resource-pattern-type", "prefixed"),
    )
    expected = [["topic", "or", "prefixed", "User:*", "10.0.0.1", "all", "deny"]]
    match = ("--resource-pattern-type", "match")
    assert rows(acls.ok("acl", "list", "--topic", "orders", *match)) == expected
    assert rows(acls.ok("acl", "list", "--topic", "bills", *match)) == []


def test_a_producer_and_a_consumer_get_what_they_need(acls: CommandLine) -> None:
    acls.ok(
        *("acl", "add", "--allow-principal", "User:p", "--producer", "--idempotent"),
        *("--topic", "t", "--transactional-id", "x"),
    )
    acls.ok(
        *("acl", "add", "--allow-principal", "User:c", "--consumer"),
        *("--topic", "t", "--group", "g"),
    )
    found = {
        (one["principal"], one["resource_type"], one["operation"])
        for one in acls.json("acl", "list")["acls"]
    }
    assert found == {
        *(("User:p", "topic", one) for one in ("write", "describe", "create")),
        *(("User:p", "transactional-id", one) for one in ("write", "describe")),
        ("User:p", "cluster", "idempotent-write"),
        *(("User:c", "topic", one) for one in ("read", "describe")),
        ("User:c", "group", "read"),
    }


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["add", "--topic", "t", "--operation", "read"], "--allow-principal"),
        (["add", "--topic", "t", "--allow-principal", "User:a"], "--operation"),
        (["add", "--allow-principal", "alice", "--cluster", "--operation", "alter"], "TYPE:NAME"),
        (["add", "--allow-principal", "User:a", "--consumer", "--topic", "t"], "--group"),
        (["remove", "--yes"], "say which rules"),
        (["list", "--producer"], "for `acl add`"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_wrong_usage_is_explained(secure: CommandLine, words: list[str], expected: str) -> None:
    result = secure.run("acl", *words)
    assert result.exit_code == 2
    assert expected in result.stderr


def test_removing_what_nobody_added_fails(acls: CommandLine) -> None:
    result = acls.run("acl", "remove", "--topic", "none", "--yes")
    assert (result.exit_code, "no rule is selected" in result.stderr) == (1, True)


def test_without_an_authorizer_the_command_says_so(cli: CommandLine) -> None:
    result = cli.run("acl", "list")
    assert result.exit_code == 1
    assert "authorizer" in result.stderr


def test_the_blocking_admin_client_creates_finds_and_deletes(acls: CommandLine) -> None:
    with AdminClient(acls.bootstrap) as admin:
        admin.create_acls([READS, WRITES])
        assert admin.describe_acls() == sorted([READS, WRITES])
        deleted = admin.delete_acls([AclFilter(resource_name="orders")])
        assert deleted == {AclFilter(resource_name="orders"): [READS]}
        assert admin.describe_acls(AclFilter(permission=AclPermission.ALLOW)) == [WRITES]
        with pytest.raises(BrokerError, match="INVALID_REQUEST"):
            admin.create_acls([READS._replace(resource_name="")])


async def test_the_trio_admin_client_creates_finds_and_deletes(acls: CommandLine) -> None:
    async with TrioAdminClient(acls.bootstrap) as admin:
        await admin.create_acls([READS])
        assert await admin.describe_acls(AclFilter(operation=AclOperation.READ)) == [READS]
        assert list((await admin.delete_acls([AclFilter()])).values()) == [[READS]]
