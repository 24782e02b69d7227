"""What is answered about ACLs, quotas and users while there is no security."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    create_acls,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_user_scram_credentials,
)
from tests.kit.in_process import running_broker

ANY, TOPIC, LITERAL, READ, ALLOW = 1, 2, 3, 3, 3


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_acls_are_disabled_without_an_authorizer(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        described = await client.ask(
            describe_acls.Request(
                resource_type_filter=ANY,
                resource_name_filter=None,
                principal_filter=None,
                host_filter=None,
                operation=ANY,
                permission_type=ANY,
            ),
            version,
            describe_acls.Response,
        )
        assert (described.error_code, described.resources) == (ErrorCode.SECURITY_DISABLED, [])
        creation = create_acls.AclCreation(
            resource_type=TOPIC,
            resource_name="t",
            principal="User:a",
            host="*",
            operation=READ,
            permission_type=ALLOW,
        )
        created = await client.ask(
            create_acls.Request(creations=[creation] * 2), version, create_acls.Response
        )
        assert [one.error_code for one in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
        everything = delete_acls.Filter(
            resource_type_filter=ANY,
            resource_name_filter=None,
            principal_filter=None,
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )
        deleted = await client.ask(
            delete_acls.Request(filters=[everything]), version, delete_acls.Response
        )
        (result,) = deleted.filter_results
        assert (result.error_code, result.matching_acls) == (ErrorCode.SECURITY_DISABLED, [])


@pytest.mark.parametrize("version", [0, 1])
async def test_there_are_no_quotas(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        request = describe_client_quotas.Request(components=[], strict=False)
        answer = await under_test.connect().ask(request, version, describe_client_quotas.Response)
        assert (answer.error_code, answer.entries) == (ErrorCode.NONE, [])


async def test_there_are_no_scram_users(tmp_path: Path) -> None:
    scram = describe_user_scram_credentials
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        everyone = await client.ask(scram.Request(users=None), 0, scram.Response)
        assert (everyone.error_code, everyone.results) == (ErrorCode.NONE, [])
        named = scram.Request(users=[scram.UserName(name=name) for name in ("a", "b", "a")])
        answer = await client.ask(named, 0, scram.Response)
        assert [(one.user, one.error_code) for one in answer.results] == [
            ("a", ErrorCode.DUPLICATE_RESOURCE),
            ("b", ErrorCode.RESOURCE_NOT_FOUND),
        ]
