"""A metadata log that cannot be written: every admin operation says so, and nothing changes."""

from pathlib import Path

import pytest

from minikafka.broker.change_error import ChangeError
from minikafka.broker.controller import Controller
from minikafka.broker.quorum import Quorum
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from minikafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from minikafka.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from minikafka.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from minikafka.storage.errors import StorageError
from tests.broker.handlers.config_requests import SET, TOPIC, change, replace
from tests.broker.harness import running_broker, values_of


async def test_every_change_is_refused_and_records_still_flow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: Quorum, payload: bytes) -> int:
        raise StorageError("No space left on device")

    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        before = list(under_test.broker.image.records())
        monkeypatch.setattr(Quorum, "propose", fail)
        failed = ErrorCode.KAFKA_STORAGE_ERROR

        wanted = CreatableTopic(
            name="u", num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        created = await client.ask(CreateTopicsRequest(topics=[wanted]), 7, CreateTopicsResponse)
        assert [one.error_code for one in created.topics] == [failed]
        assert created.topics[0].error_message == "No space left on device"

        growth = CreatePartitionsTopic(name="t", count=2, assignments=None)
        grown = await client.ask(
            CreatePartitionsRequest(topics=[growth], timeout_ms=1000, validate_only=False),
            3,
            CreatePartitionsResponse,
        )
        assert [one.error_code for one in grown.results] == [failed]

        deleted = await client.ask(
            DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5, DeleteTopicsResponse
        )
        assert [one.error_code for one in deleted.responses] == [failed]

        assert await change(client, TOPIC, "t", ("flush.ms", SET, "5")) == failed
        assert await replace(client, TOPIC, "t", {"flush.ms": "5"}) == failed

        init = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        answer = await client.ask(init, 4, InitProducerIdResponse)
        assert (answer.error_code, answer.producer_id) == (failed, -1)

        assert list(under_test.broker.image.records()) == before
        await client.produce("t", b"x")
        assert values_of(await client.fetch("t", 0)) == [b"x"]


async def test_what_only_clusters_need_is_refused_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        failed = ErrorCode.KAFKA_STORAGE_ERROR

        def refuse(self: Controller, decide: object) -> None:
            raise ChangeError(failed, "nobody can be asked")

        monkeypatch.setattr(Controller, "change", refuse)
        topic = ReassignableTopic(
            name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[1])]
        )
        moved = await client.ask(
            AlterPartitionReassignmentsRequest(topics=[topic]),
            1,
            AlterPartitionReassignmentsResponse,
        )
        assert moved.error_code == failed
        for version, codes in ((0, [failed]), (1, [])):
            elect = ElectLeadersRequest(
                topic_partitions=[TopicPartitions(topic="t", partitions=[0])], timeout_ms=1000
            )
            elected = await client.ask(elect, version, ElectLeadersResponse)
            found = [
                one.error_code
                for topic_result in elected.replica_election_results
                for one in topic_result.partition_result
            ]
            assert (elected.error_code, found) == (failed if version else 0, codes)
