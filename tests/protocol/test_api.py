from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module

import pytest

from minikafka.protocol.api import ApiKey, request_class, response_class
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.schema import Request, Response


@pytest.mark.parametrize("api_key", ApiKey, ids=lambda key: key.title)
def test_every_api_has_a_request_and_a_response_of_the_same_versions(api_key: ApiKey) -> None:
    request, response = request_class(api_key), response_class(api_key)
    assert issubclass(request, Request)
    assert issubclass(response, Response)
    assert request.__name__ == f"{api_key.title}Request"
    assert response.__name__ == f"{api_key.title}Response"
    assert request.API_KEY == response.API_KEY == api_key
    assert request.VERSIONS == response.VERSIONS
    assert request.FLEXIBLE == response.FLEXIBLE


@pytest.mark.parametrize("api_key", ApiKey, ids=lambda key: key.title)
def test_the_module_of_an_api_documents_it(api_key: ApiKey) -> None:
    module = import_module(request_class(api_key).__module__)
    assert module.__doc__ is not None
    assert module.__doc__.startswith(f"{api_key.title} (API {int(api_key)}): ")
    newest = request_class(api_key).VERSIONS.last
    named = [int(version) for version in re.findall(r"^- (\d+)\b", module.__doc__, re.MULTILINE)]
    assert named == sorted(named)
    assert all(version <= newest for version in named)


@pytest.mark.parametrize(
    ("api_key", "oldest", "newest"),
    [
        (ApiKey.PRODUCE, 3, 13),
        (ApiKey.FETCH, 4, 18),
        (ApiKey.LIST_OFFSETS, 1, 11),
        (ApiKey.METADATA, 0, 13),
        (ApiKey.OFFSET_COMMIT, 2, 10),
        (ApiKey.OFFSET_FETCH, 1, 10),
        (ApiKey.FIND_COORDINATOR, 0, 6),
        (ApiKey.JOIN_GROUP, 0, 9),
        (ApiKey.HEARTBEAT, 0, 4),
        (ApiKey.LEAVE_GROUP, 0, 5),
        (ApiKey.SYNC_GROUP, 0, 5),
        (ApiKey.DESCRIBE_GROUPS, 0, 6),
        (ApiKey.LIST_GROUPS, 0, 5),
        (ApiKey.SASL_HANDSHAKE, 0, 1),
        (ApiKey.SASL_AUTHENTICATE, 0, 2),
        (ApiKey.API_VERSIONS, 0, 4),
        (ApiKey.CREATE_TOPICS, 2, 7),
        (ApiKey.DELETE_TOPICS, 1, 6),
        (ApiKey.DELETE_RECORDS, 0, 2),
        (ApiKey.CREATE_PARTITIONS, 0, 3),
        (ApiKey.DELETE_GROUPS, 0, 2),
        (ApiKey.INIT_PRODUCER_ID, 0, 6),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5),
        (ApiKey.ADD_OFFSETS_TO_TXN, 0, 4),
        (ApiKey.END_TXN, 0, 5),
        (ApiKey.TXN_OFFSET_COMMIT, 0, 5),
        (ApiKey.DESCRIBE_ACLS, 1, 3),
        (ApiKey.CREATE_ACLS, 1, 3),
        (ApiKey.DELETE_ACLS, 1, 3),
        (ApiKey.DESCRIBE_CONFIGS, 1, 4),
        (ApiKey.ALTER_CONFIGS, 0, 2),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1),
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0),
    ],
    ids=lambda value: value.title if isinstance(value, ApiKey) else str(value),
)
def test_the_versions_that_the_java_client_sends_are_declared(
    api_key: ApiKey, oldest: int, newest: int
) -> None:
    """The Java client has the widest range of all clients, at both ends."""
    versions = request_class(api_key).VERSIONS
    assert oldest in versions
    assert newest in versions


def test_an_api_has_kafkas_name() -> None:
    assert ApiKey.OFFSET_FOR_LEADER_EPOCH.title == "OffsetForLeaderEpoch"
    assert ApiKey(18).title == "ApiVersions"


def test_importing_the_table_imports_no_messages() -> None:
    program = (
        "import sys, minikafka.protocol.api, minikafka.protocol.frames;"
        "print([name for name in sys.modules if '.messages.' in name])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_error_codes_know_whether_they_are_retriable() -> None:
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.is_retriable
    assert not ErrorCode.OFFSET_OUT_OF_RANGE.is_retriable
    assert not ErrorCode.NONE.is_retriable
    assert [int(code) for code in ErrorCode] == list(range(-1, len(ErrorCode) - 1))
