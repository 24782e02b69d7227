"""Blocks of producer ids: to registered brokers, never twice."""

from minikafka.metadata.decision import Refusal
from minikafka.metadata.producer_ids import PRODUCER_ID_BLOCK_SIZE, allocate_producer_ids_checked
from minikafka.protocol.errors import ErrorCode
from tests.metadata.cluster import Cluster


def test_blocks_follow_each_other_for_all_brokers() -> None:
    cluster = Cluster(2)
    blocks = [
        cluster.commit(allocate_producer_ids_checked(cluster.image, one, cluster.epoch(one)))
        for one in (1, 2, 1)
    ]
    size = PRODUCER_ID_BLOCK_SIZE
    assert blocks == [range(number * size, (number + 1) * size) for number in range(3)]


def test_a_process_that_was_replaced_gets_none() -> None:
    cluster = Cluster(1)
    old = cluster.epoch(1)
    cluster.join(1)
    for broker_id, code in [
        (1, ErrorCode.STALE_BROKER_EPOCH),
        (2, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ]:
        refusal = cluster.commit(allocate_producer_ids_checked(cluster.image, broker_id, old))
        assert isinstance(refusal, Refusal)
        assert refusal.error_code is code
    assert cluster.image.next_producer_id == 0
