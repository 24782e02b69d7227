"""What the coordinator of a transaction answers, in the tests of plans and of reactions."""

from __future__ import annotations

from minikafka.protocol.messages import (
    add_partitions_to_txn,
    api_versions,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)


def versions(produce: int = 12, level: int | None = 2) -> api_versions.Response:
    """A broker's versions; ``level`` is its cluster's transaction.version, if it has one."""
    levels = {"other": (1, 9)} | ({} if level is None else {"transaction.version": (level, level)})
    return api_versions.Response(
        error_code=0,
        api_keys=[
            api_versions.ApiVersion(api_key=key, min_version=0, max_version=last)
            for key, last in ((0, produce), (26, 5), (28, 5))
        ],
        finalized_features=[
            api_versions.FinalizedFeatureKey(
                name=name, min_version_level=first, max_version_level=last
            )
            for name, (first, last) in levels.items()
        ],
    )


def granted(
    producer_id: int = 7, epoch: int = 4, ongoing: tuple[int, int] | None = None, code: int = 0
) -> init_producer_id.Response:
    ongoing_id, ongoing_epoch = ongoing or (-1, -1)
    return init_producer_id.Response(
        error_code=code,
        producer_id=producer_id,
        producer_epoch=epoch,
        ongoing_txn_producer_id=ongoing_id,
        ongoing_txn_producer_epoch=ongoing_epoch,
    )


def ended(code: int = 0, epoch: int = 4) -> end_txn.Response:
    return end_txn.Response(error_code=code, producer_id=7, producer_epoch=epoch)


def added(*codes: int) -> add_partitions_to_txn.Response:
    """One code for each partition of topic `t`."""
    results = [
        add_partitions_to_txn.PartitionResult(partition_index=index, partition_error_code=code)
        for index, code in enumerate(codes)
    ]
    topic = add_partitions_to_txn.TopicResult(name="t", results_by_partition=results)
    return add_partitions_to_txn.Response(results_by_topic_v3_and_below=[topic])


def committed(*codes: int) -> txn_offset_commit.Response:
    """One code for each partition of topic `t`."""
    partitions = [
        txn_offset_commit.ResponsePartition(partition_index=index, error_code=code)
        for index, code in enumerate(codes)
    ]
    topic = txn_offset_commit.ResponseTopic(name="t", partitions=partitions)
    return txn_offset_commit.Response(topics=[topic])
