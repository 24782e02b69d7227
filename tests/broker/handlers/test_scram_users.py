"""SCRAM users in a cluster: whichever node is asked, all of them know (KIP-554)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from minikafka.metadata.scram_credentials import ScramCredentials
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import alter_user_scram_credentials as alter_api
from minikafka.protocol.messages import describe_user_scram_credentials as describe_api
from minikafka.security.scram import ScramMechanism, salted_password
from tests.kit.in_process import running_cluster
from tests.kit.wire import WireClient

SHA_256 = ScramMechanism.SCRAM_SHA_256


def upsertion(user: str, iterations: int = 4096) -> alter_api.ScramCredentialUpsertion:
    return alter_api.ScramCredentialUpsertion(
        name=user,
        mechanism=SHA_256.value,
        iterations=iterations,
        salt=b"salt",
        salted_password=salted_password(SHA_256, "secret", b"salt", max(iterations, 1)),
    )


async def described(client: WireClient) -> dict[str, list[tuple[int, int]]]:
    request = describe_api.Request(users=None)
    answer = await client.ask(request, 0, describe_api.Response)
    return {
        one.user: [(info.mechanism, info.iterations) for info in one.credential_infos]
        for one in answer.results
    }


async def test_every_node_takes_and_knows_users(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        for number, node in cluster.nodes.items():
            request = alter_api.Request(
                deletions=[], upsertions=[upsertion(f"user{number}"), upsertion("few", 1)]
            )
            answer = await node.connect().ask(request, 0, alter_api.Response)
            assert {one.user: one.error_code for one in answer.results} == {
                f"user{number}": ErrorCode.NONE,
                "few": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            }
        everybody = {f"user{number}": [(1, 4096)] for number in cluster.nodes}

        def is_complete(known: ScramCredentials) -> bool:
            return len(known) == len(everybody)

        for node in cluster.nodes.values():
            credentials = node.broker.image.scram_credentials
            await cluster.until(partial(is_complete, credentials))
            assert await described(node.connect()) == everybody
        first = cluster.nodes[1]
        removal = alter_api.ScramCredentialDeletion(name="user1", mechanism=SHA_256.value)
        request = alter_api.Request(deletions=[removal, removal], upsertions=[])
        twice = await first.connect().ask(request, 0, alter_api.Response)
        assert [one.error_code for one in twice.results] == [ErrorCode.DUPLICATE_RESOURCE]
        request = alter_api.Request(deletions=[removal], upsertions=[])
        await first.connect().ask(request, 0, alter_api.Response)
        assert "user1" not in await described(first.connect())
