"""Logs on the disk that the metadata does not know: deleted, restored or set aside.

Usually their topic was deleted and the broker was killed before it had removed the files: the
metadata remembers the removal, so they are deleted. Otherwise the metadata log has lost something
(a damaged tail was truncated, a file is missing). Acknowledged records must not be lost with it, so
the topic is recreated from its directories. Its settings are lost; retention is off until an
administrator sets it. A log that fits no topic is set aside under another name.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from ...metadata.image import RESOURCE_TOPIC, MetadataImage
from ...metadata.placement import PARTITIONS_PER_TOPIC_MAX
from ...metadata.producer_ids import PRODUCER_ID_BLOCK_SIZE
from ...metadata.records import (
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    SettingRecord,
    TopicRecord,
)
from ...metadata.topics import topic_name_problem
from ...storage.log_directory import LogDirectory, LogKey
from ..control.metadata_store import MetadataStore

logger = logging.getLogger(__name__)

_PRODUCER_ID_BELIEVED_MAX = 2**62  # larger ones were made up by a client
_WITHOUT_RETENTION = {"retention.ms": "-1", "retention.bytes": "-1"}


class StrayLogs(NamedTuple):
    """The decision about every stray log.

    Attributes:
        deleted: their topics were deleted.
        restored: metadata records that bring their topics back.
        set_aside: they belong to no topic that could be brought back.
    """

    deleted: list[LogKey]
    restored: list[MetadataRecord]
    set_aside: list[LogKey]


def settle_strays(
    directory: LogDirectory,
    store: MetadataStore,
    node_id: int,
    settings: Mapping[str, Mapping[str, str]],
    new_suffix: Callable[[], str],
) -> None:
    """Delete, restore or set aside the logs that the metadata does not know. May block.

    Args:
        directory: its logs are open.
        store: the metadata.
        node_id: this broker.
        settings: of internal topics, by name, in case they are restored.
        new_suffix: returns unique texts.

    Raises:
        StorageError, OSError: the disk failed.
    """
    strays = decide_strays(
        store.image, directory.topic_ids, store.removed_topic_ids, node_id, settings
    )
    for topic, number in strays.deleted:
        logger.info("partition %s-%d was deleted: removing its files", topic, number)
        directory.delete_log(topic, number, unique_suffix=new_suffix())
    for topic, number in strays.set_aside:
        path = directory.set_aside_log(topic, number, unique_suffix=new_suffix())
        logger.error("partition %s-%d belongs to no topic: it is in %s", topic, number, path)
    for record in strays.restored:
        if isinstance(record, TopicRecord):
            logger.error(
                "the metadata log has lost topic %s: it is recreated from its directories, "
                "without its settings and without retention",
                record.name,
            )
    records = strays.restored
    if store.may_have_lost and directory.logs:
        records.append(_next_producer_ids(directory, store, node_id))
    store.restore(records)


def _next_producer_ids(
    directory: LogDirectory, store: MetadataStore, node_id: int
) -> ProducerIdsRecord:
    """A record after which no producer id is allocated that a producer may have."""
    used = (
        one.producer_id
        for log in directory.logs.values()
        for one in log.producer_state.active_producers()
        if one.producer_id < _PRODUCER_ID_BELIEVED_MAX
    )
    beyond_lost_block = store.image.next_producer_id + PRODUCER_ID_BLOCK_SIZE
    return ProducerIdsRecord(node_id, max(max(used, default=-1) + 1, beyond_lost_block))


def decide_strays(
    image: MetadataImage,
    topic_ids: Mapping[LogKey, bytes],
    removed_topic_ids: Collection[bytes],
    node_id: int,
    settings: Mapping[str, Mapping[str, str]],
) -> StrayLogs:
    """Decide about every log.

    Args:
        image: the metadata.
        topic_ids: the topic id in each log's directory.
        removed_topic_ids: topics whose removal is in the metadata log.
        node_id: this broker, which has the only replica.
        settings: of internal topics, by name, in case they are restored.
    """
    strays: dict[tuple[str, bytes], list[int]] = defaultdict(list)
    for (name, number), topic_id in topic_ids.items():
        known = image.topics.get(name)
        if known is None or known.topic_id != topic_id or number >= len(known.partitions):
            strays[name, topic_id].append(number)
    result = StrayLogs([], [], [])
    restored: set[str] = set()
    for (name, topic_id), numbers in strays.items():
        known = image.topics.get(name)
        if topic_id in removed_topic_ids:
            result.deleted.extend((name, number) for number in numbers)
        elif (
            name in restored
            or topic_name_problem(name)
            or max(numbers) >= PARTITIONS_PER_TOPIC_MAX
            or (known.topic_id if known is not None else topic_id) != topic_id
            or (known is None and topic_id in image.topics_by_id)
        ):
            result.set_aside.extend((name, number) for number in numbers)
        else:
            restored.add(name)
            if known is None:
                result.restored.append(TopicRecord(name, topic_id))
                result.restored.extend(
                    SettingRecord(RESOURCE_TOPIC, name, key, value)
                    for key, value in settings.get(name, _WITHOUT_RETENTION).items()
                )
            first = 0 if known is None else len(known.partitions)
            result.restored.extend(
                PartitionRecord(topic_id, number, (node_id,), (node_id,), node_id, 0, 0)
                for number in range(first, max(numbers) + 1)
            )
    return result
