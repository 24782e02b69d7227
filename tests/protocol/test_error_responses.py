"""The made-up error answers: for every API and version they can be sent, and name what failed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from minikafka.broker.handlers import API_TABLE
from minikafka.protocol.api import ApiKey
from minikafka.protocol.error_responses import error_response
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fields import Struct
from minikafka.protocol.messages import (
    add_partitions_to_txn,
    fetch,
    find_coordinator,
    join_group,
    metadata,
    offset_fetch,
    produce,
)
from minikafka.protocol.schema import Request, Response

CODE = ErrorCode.NOT_COORDINATOR
CASES = [
    pytest.param(handler.api_key, version, id=f"{handler.api_key.name}-{version}")
    for handler in API_TABLE.values()
    for version in range(handler.first_version, handler.last_version + 1)
]
HAVE_NO_ERROR_OF_THEIR_OWN = {
    (ApiKey.DESCRIBE_LOG_DIRS, 1),  # errors are in the directories, which the request does not name
    (ApiKey.DESCRIBE_LOG_DIRS, 2),
}


def filled(struct: type[Struct], version: int) -> Any:
    """A struct in which every array of the version has one entry."""
    values: dict[str, Any] = {}
    for field in struct.FIELDS:
        if version not in field.versions:
            continue
        if field.kind == "array":
            assert field.item is not None
            item = field.item
            values[field.name] = [
                sample(item.kind) if item.struct is None else filled(item.struct, version)
            ]
        elif field.kind == "struct":
            assert field.struct is not None
            values[field.name] = filled(field.struct, version)
        else:
            values[field.name] = sample(field.kind)
    for field in struct.FIELDS:
        if field.is_required and field.name not in values:
            values[field.name] = [] if field.kind == "array" else sample(field.kind)
    return struct(**values)


def sample(kind: str) -> Any:
    samples = {"string": "x", "bytes": b"x", "records": b"x", "uuid": bytes(range(16))}
    return samples.get(kind, kind == "boolean" or 7)


def codes(value: Any, version: int) -> Iterator[int]:
    if isinstance(value, list):
        for one in value:
            yield from codes(one, version)
    elif isinstance(value, Struct):
        for field in value.FIELDS:
            if version not in field.versions:
                continue
            if field.name.endswith("error_code"):
                yield getattr(value, field.name)
            else:
                yield from codes(getattr(value, field.name), version)


@pytest.mark.parametrize(("api_key", "version"), CASES)
def test_every_request_can_be_answered_with_an_error(api_key: ApiKey, version: int) -> None:
    module = import_module(f"minikafka.protocol.messages.{api_key.name.lower()}")
    request_class: type[Request] = module.Request
    response_class: type[Response] = module.Response
    request = filled(request_class, version)
    response = error_response(request, response_class, version, CODE)
    encoded = b"".join(bytes(part) for part in response.encode(version, b""))
    found = list(codes(response_class.decode(version, memoryview(encoded)), version))
    if (api_key, version) in HAVE_NO_ERROR_OF_THEIR_OWN:
        assert found == []
    else:
        assert set(found) == {CODE}


def test_an_answer_names_the_partitions_of_a_produce() -> None:
    part = produce.PartitionData(index=3, records=b"")
    request = produce.Request(
        acks=1, timeout_ms=1, topic_data=[produce.TopicData(name="t", partition_data=[part])]
    )
    response = error_response(request, produce.Response, 9, CODE)
    assert isinstance(response, produce.Response)
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    assert (topic.name, partition.index, partition.base_offset) == ("t", 3, -1)
    assert partition.error_code == CODE


def test_an_answer_names_topics_by_id() -> None:
    part = fetch.Partition(partition=2, fetch_offset=0, partition_max_bytes=1)
    request = fetch.Request(
        max_wait_ms=0, min_bytes=0, topics=[fetch.Topic(topic_id=b"i" * 16, partitions=[part])]
    )
    response = error_response(request, fetch.Response, 13, CODE)
    assert isinstance(response, fetch.Response)
    (topic,) = response.responses
    assert (topic.topic_id, topic.partitions[0].partition_index) == (b"i" * 16, 2)


def test_an_answer_names_keys_members_and_transactions() -> None:
    found = error_response(
        find_coordinator.Request(coordinator_keys=["g"]), find_coordinator.Response, 4, CODE
    )
    assert isinstance(found, find_coordinator.Response)
    assert [(one.key, one.node_id) for one in found.coordinators] == [("g", -1)]
    joined = error_response(
        join_group.Request(
            group_id="g", session_timeout_ms=1, member_id="m", protocol_type="c", protocols=[]
        ),
        join_group.Response,
        9,
        CODE,
    )
    assert isinstance(joined, join_group.Response)
    assert (joined.error_code, joined.member_id, joined.members) == (CODE, "m", [])
    topic = add_partitions_to_txn.Topic(name="t", partitions=[4])
    added = error_response(
        add_partitions_to_txn.Request(v3_and_below_topics=[topic]),
        add_partitions_to_txn.Response,
        3,
        CODE,
    )
    assert isinstance(added, add_partitions_to_txn.Response)
    (result,) = added.results_by_topic_v3_and_below
    assert result.name == "t"
    assert result.results_by_partition[0].partition_index == 4


def test_metadata_of_all_topics_has_none_to_name() -> None:
    response = error_response(metadata.Request(topics=None), metadata.Response, 12, CODE)
    assert isinstance(response, metadata.Response)
    assert response.topics == []


def test_offsets_of_groups_fail_with_the_group() -> None:
    wanted = offset_fetch.RequestGroup(group_id="g", topics=None)
    response = error_response(offset_fetch.Request(groups=[wanted]), offset_fetch.Response, 8, CODE)
    assert isinstance(response, offset_fetch.Response)
    assert [(one.group_id, one.error_code, one.topics) for one in response.groups] == [
        ("g", CODE, [])
    ]
