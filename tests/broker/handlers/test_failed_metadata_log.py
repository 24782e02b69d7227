"""A metadata log that cannot be written: every admin operation says so, and nothing changes."""

from pathlib import Path

import pytest

from minikafka.broker.control.controller import Controller
from minikafka.broker.quorum.change_error import ChangeError
from minikafka.broker.quorum.quorum import Quorum
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    elect_leaders,
    init_producer_id,
)
from minikafka.storage.errors import StorageError
from tests.broker.handlers.config_requests import SET, TOPIC, change, replace
from tests.kit.in_process import running_broker
from tests.kit.wire import creatable, create_request, values_of


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

        created = await client.ask(create_request(creatable("u")), 7, create_topics.Response)
        assert [one.error_code for one in created.topics] == [failed]
        assert created.topics[0].error_message == "No space left on device"

        growth = create_partitions.Topic(name="t", count=2, assignments=None)
        grown = await client.ask(
            create_partitions.Request(topics=[growth], timeout_ms=1000, validate_only=False),
            3,
            create_partitions.Response,
        )
        assert [one.error_code for one in grown.results] == [failed]

        deleted = await client.ask(
            delete_topics.Request(topic_names=["t"], timeout_ms=1000), 5, delete_topics.Response
        )
        assert [one.error_code for one in deleted.responses] == [failed]

        assert await change(client, TOPIC, "t", ("flush.ms", SET, "5")) == failed
        assert await replace(client, TOPIC, "t", {"flush.ms": "5"}) == failed

        init = init_producer_id.Request(transactional_id=None, transaction_timeout_ms=1000)
        answer = await client.ask(init, 4, init_producer_id.Response)
        assert (answer.error_code, answer.producer_id) == (failed, -1)

        assert list(under_test.broker.image.records()) == before
        await client.produce("t", b"x")
        assert values_of(await client.fetch("t", 0)) == [b"x"]


async def test_changes_that_only_clusters_need_are_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        failed = ErrorCode.KAFKA_STORAGE_ERROR

        def refuse(self: Controller, decide: object) -> None:
            raise ChangeError(failed, "nobody can be asked")

        monkeypatch.setattr(Controller, "change", refuse)
        topic = alter_partition_reassignments.ReassignableTopic(
            name="t",
            partitions=[
                alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=[1])
            ],
        )
        moved = await client.ask(
            alter_partition_reassignments.Request(topics=[topic]),
            1,
            alter_partition_reassignments.Response,
        )
        assert moved.error_code == failed
        for version, codes in ((0, [failed]), (1, [])):
            elect = elect_leaders.Request(
                topic_partitions=[elect_leaders.TopicPartitions(topic="t", partitions=[0])],
                timeout_ms=1000,
            )
            elected = await client.ask(elect, version, elect_leaders.Response)
            found = [
                one.error_code
                for topic_result in elected.replica_election_results
                for one in topic_result.partition_result
            ]
            assert (elected.error_code, found) == (failed if version else 0, codes)
