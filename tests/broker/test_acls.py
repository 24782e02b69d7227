"""ACLs in a running broker: kept, found, enforced, and enforced for what is forwarded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from minikafka.broker.control.forwarder import principal_of
from minikafka.broker.rpc import operations
from minikafka.broker.security.authorization import authorizer_of
from minikafka.broker.settings.config import load_config
from minikafka.metadata.settings import InvalidSettingError
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    consumer_group_heartbeat,
    create_acls,
    create_topics,
    delete_acls,
    describe_acls,
    fetch,
    produce,
)
from minikafka.security.acl import Operation, PatternType, Permission, ResourceType
from minikafka.security.principal import ANONYMOUS, BROKER, Principal
from minikafka.testing.wire import WireClosedError
from tests.kit.in_process import BrokerUnderTest, running_broker, running_cluster
from tests.kit.wire import WireClient, creatable, create_request, one_batch, produce_request

ROOT, ALICE = Principal("User", "root"), Principal("User", "alice")
AUTHORIZER: Final = ("authorizer.class.name=standard", "super.users=User:root")
VERSION: Final = 3


def acl(
    operation: Operation,
    name: str = "t",
    kind: ResourceType = ResourceType.TOPIC,
    *,
    pattern: int = PatternType.LITERAL,
    permission: int = Permission.ALLOW,
    principal: str = "User:alice",
) -> create_acls.AclCreation:
    return create_acls.AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=permission,
    )


async def create(client: WireClient, *acls: create_acls.AclCreation) -> list[int]:
    request = create_acls.Request(creations=list(acls))
    answer = await client.ask(request, VERSION, create_acls.Response)
    return [one.error_code for one in answer.results]


def selection(name: str | None, operation: int = 1) -> dict[str, Any]:
    return {
        "resource_type_filter": 1,
        "resource_name_filter": name,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": operation,
        "permission_type": 1,
    }


async def describe(client: WireClient, name: str | None = None) -> describe_acls.Response:
    request = describe_acls.Request(**selection(name))
    return await client.ask(request, VERSION, describe_acls.Response)


async def delete(client: WireClient, *names: str | None) -> list[delete_acls.FilterResult]:
    filters = [delete_acls.Filter(**selection(name)) for name in names]
    request = delete_acls.Request(filters=filters)
    return (await client.ask(request, VERSION, delete_acls.Response)).filter_results


def shown(described: describe_acls.Response) -> dict[str, list[tuple[str, int]]]:
    return {
        one.resource_name: [(rule.principal, rule.operation) for rule in one.acls]
        for one in described.resources
    }


async def test_acls_are_created_found_and_deleted(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *AUTHORIZER) as under_test:
        root = under_test.connect(ROOT)
        rules = [acl(Operation.READ), acl(Operation.WRITE), acl(Operation.READ, "other")]
        assert await create(root, *rules, rules[0]) == [ErrorCode.NONE] * 4
        assert shown(await describe(root)) == {
            "t": [("User:alice", Operation.READ), ("User:alice", Operation.WRITE)],
            "other": [("User:alice", Operation.READ)],
        }
        (deleted, nothing) = await delete(root, "t", "none")
        assert [one.operation for one in deleted.matching_acls] == [Operation.READ, Operation.WRITE]
        assert (nothing.error_code, nothing.matching_acls) == (ErrorCode.NONE, [])
        assert list(shown(await describe(root))) == ["other"]


async def test_acls_outlive_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *AUTHORIZER) as under_test:
        await create(under_test.connect(ROOT), acl(Operation.READ))
    async with running_broker(tmp_path, *AUTHORIZER) as under_test:
        assert list(shown(await describe(under_test.connect(ROOT)))) == ["t"]


@pytest.mark.parametrize(
    "wrong",
    [
        acl(Operation.UNKNOWN),
        acl(Operation.ANY),
        acl(Operation.READ, ""),
        acl(Operation.READ, kind=ResourceType.ANY),
        acl(Operation.ALTER, "any-cluster", ResourceType.CLUSTER),
        acl(Operation.READ, pattern=PatternType.MATCH),
        acl(Operation.READ, permission=Permission.ANY),
        acl(Operation.READ, principal="alice"),
    ],
    ids=lambda one: f"{one.operation}-{one.resource_type}-{one.resource_name}-{one.principal}",
)
async def test_an_acl_that_says_nothing_useful_is_refused_alone(
    tmp_path: Path, wrong: create_acls.AclCreation
) -> None:
    async with running_broker(tmp_path, *AUTHORIZER) as under_test:
        root = under_test.connect(ROOT)
        codes = await create(root, wrong, acl(Operation.READ, "right"))
        assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
        assert list(shown(await describe(root))) == ["right"]


async def test_a_filter_that_nobody_understands_is_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *AUTHORIZER) as under_test:
        root = under_test.connect(ROOT)
        request = describe_acls.Request(**selection(None, operation=99))
        answer = await root.ask(request, VERSION, describe_acls.Response)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        filters = [delete_acls.Filter(**selection(None, operation=99))]
        deleted = await root.ask(
            delete_acls.Request(filters=filters), VERSION, delete_acls.Response
        )
        assert [one.error_code for one in deleted.filter_results] == [ErrorCode.INVALID_REQUEST]


async def test_one_request_cannot_have_too_many_acls_or_filters(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *AUTHORIZER) as under_test:
        root = under_test.connect(ROOT)
        assert set(await create(root, *[acl(Operation.READ)] * 10_001)) == {
            ErrorCode.INVALID_REQUEST
        }
        results = await delete(root, *["t"] * 1001)
        assert {one.error_code for one in results} == {ErrorCode.INVALID_REQUEST}


async def scene(under_test: BrokerUnderTest, *acls: create_acls.AclCreation) -> WireClient:
    """Topics ``t`` and ``secret``, and a client that has these rights."""
    root = under_test.connect(ROOT)
    for name in ("t", "secret"):
        await root.create_topic(name)
    await create(root, *acls)
    return under_test.connect(ALICE)


def to_both(acks: int) -> produce.Request:
    request = produce_request("t", one_batch(b"v"), acks=acks)
    request.topic_data += produce_request("secret", one_batch(b"v")).topic_data
    return request


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_produce_stores_what_it_may_and_refuses_the_rest(tmp_path: Path, acks: int) -> None:
    async with running_broker(tmp_path, *AUTHORIZER) as under_test:
        alice = await scene(under_test, acl(Operation.WRITE))
        answer = await alice.ask(to_both(acks), 9, produce.Response)
        assert {one.name: one.partition_responses[0].error_code for one in answer.responses} == {
            "t": ErrorCode.NONE,
            "secret": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        }
        assert under_test.broker.partition("t", 0).log.log_end_offset == 1
        assert under_test.broker.partition("secret", 0).log.log_end_offset == 0


async def test_a_produce_that_nobody_answers_ends_the_connection(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *AUTHORIZER) as under_test:
        alice = await scene(under_test, acl(Operation.WRITE))
        with pytest.raises(WireClosedError):
            await alice.ask(to_both(0), 9, produce.Response)


async def test_a_fetch_session_ends_where_a_right_ends(tmp_path: Path) -> None:
    """The topic is in the session, not in the request."""
    async with running_broker(tmp_path, *AUTHORIZER) as under_test:
        alice = await scene(under_test, acl(Operation.READ))
        partition = fetch.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        request = fetch.Request(
            max_wait_ms=0,
            min_bytes=0,
            session_epoch=0,
            topics=[fetch.Topic(topic="t", partitions=[partition])],
        )
        first = await alice.ask(request, 11, fetch.Response)
        assert first.responses[0].partitions[0].error_code == ErrorCode.NONE
        await delete(under_test.connect(ROOT), "t")
        request.session_id, request.session_epoch, request.topics = first.session_id, 1, []
        second = await alice.ask(request, 11, fetch.Response)
        (refused,) = second.responses[0].partitions
        assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def heartbeat(epoch: int, regex: str | None = None) -> consumer_group_heartbeat.Request:
    return consumer_group_heartbeat.Request(
        group_id="g",
        member_id="member-of-alice",
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex=regex,
        topic_partitions=None if regex is None else [],
    )


async def test_a_regular_expression_finds_only_topics_that_the_client_may_describe(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path, *AUTHORIZER) as under_test:
        rules = [
            acl(Operation.READ),
            acl(Operation.READ, "later-1"),
            acl(Operation.READ, "g", ResourceType.GROUP),
        ]
        alice = await scene(under_test, *rules)
        root = under_test.connect(ROOT)
        await under_test.broker.internal_topics.ensure(under_test.broker.groups.runtime.topic)
        answer = await alice.ask(heartbeat(0, ".*"), 1, consumer_group_heartbeat.Response)
        assert answer.error_code == ErrorCode.NONE
        shard = under_test.broker.groups.shard("g")
        (member,) = shard.describe_consumer("g").members
        assigned = {one.topic_name for one in member.target_assignment.topic_partitions}
        assert assigned == {"t"}
        await root.create_topic("later-1")
        await root.create_topic("later-2")
        while len(assigned) < 2:
            beat = heartbeat(answer.member_epoch)
            answer = await alice.ask(beat, 1, consumer_group_heartbeat.Response)
            (member,) = shard.describe_consumer("g").members
            assigned = {one.topic_name for one in member.target_assignment.topic_partitions}
        assert assigned == {"t", "later-1"}


async def created(client: WireClient, name: str) -> int:
    answer = await client.ask(create_request(creatable(name)), 7, create_topics.Response)
    return answer.topics[0].error_code


async def test_forwarded_requests_are_judged_by_who_sent_them(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, *AUTHORIZER) as cluster:
        controller = await cluster.controller()
        node = next(one for one in cluster.running if one is not controller)
        root, alice = node.connect(ROOT), node.connect(ALICE)
        assert await created(alice, "a1") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await create(alice, acl(Operation.CREATE, "a1")) == [
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        ]
        rule = acl(Operation.CREATE, "a", pattern=PatternType.PREFIXED)
        assert await create(root, rule) == [ErrorCode.NONE]
        assert list(shown(await describe(node.connect(ROOT)))) == ["a"]
        assert await created(alice, "a1") == ErrorCode.NONE
        assert await created(alice, "b1") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await created(node.connect(), "a2") == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_brokers_make_internal_topics_where_no_client_may(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, *AUTHORIZER) as cluster:
        controller = await cluster.controller()
        node = next(one for one in cluster.running if one is not controller)
        topic = node.broker.groups.runtime.topic
        await node.broker.internal_topics.ensure(topic)
        assert topic.name in node.broker.image.topics


def test_a_forwarded_request_of_an_older_node_is_anonymous_or_the_nodes_own() -> None:
    assert principal_of(operations.Forward("/10.0.0.1")) == ANONYMOUS
    assert principal_of(operations.Forward("")) == BROKER
    assert principal_of(operations.Forward("/10.0.0.1", "User:a: b ")) == Principal("User", "a: b ")


def test_no_client_passes_for_a_broker() -> None:
    with pytest.raises(ValueError, match="Broker:itself"):
        principal_of(operations.Forward("/10.0.0.1", str(BROKER)))
    with pytest.raises(ValueError, match="User:a"):
        principal_of(operations.Forward("", "User:a"))


def config(*assignments: str) -> Any:
    return load_config(None, list(assignments), {})


def test_without_an_authorizer_there_is_none() -> None:
    assert authorizer_of(config()) is None


def test_an_authorizer_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match=r"authorizer\.class\.name"):
        config("authorizer.class.name=my.Authorizer")


def test_super_users_without_an_authorizer_are_refused() -> None:
    with pytest.raises(InvalidSettingError, match=r"authorizer\.class\.name=standard"):
        authorizer_of(config("super.users=User:root"))


def test_a_malformed_super_user_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="TYPE:NAME"):
        authorizer_of(config("authorizer.class.name=standard", "super.users=User:a;root"))


def test_an_authorizer_without_super_users_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    assert authorizer_of(config(f"authorizer.class.name={name}")) is not None
    assert "super.users" in caplog.text


async def test_a_producer_that_repeats_itself_is_stopped_when_it_loses_the_right(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path, *AUTHORIZER) as under_test:
        root, alice = under_test.connect(ROOT), under_test.connect(ALICE)
        await root.create_topic("t")
        assert await create(root, acl(Operation.WRITE)) == [ErrorCode.NONE]
        for number in range(4):
            assert (await alice.produce("t", b"allowed")).base_offset == number
        denied = acl(Operation.WRITE, permission=Permission.DENY)
        assert await create(root, denied) == [ErrorCode.NONE]
        refused = await alice.produce("t", b"refused")
        assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert under_test.broker.partitions["t", 0].log.log_end_offset == 4
