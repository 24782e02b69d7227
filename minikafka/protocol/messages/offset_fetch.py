"""OffsetFetch (API 9): how far groups have read.

Nothing stored is offset -1, not an error; neither is a group that does not exist.

- 2: null topics ask for all of the group's; an error for the whole response (KIP-88).
- 5: the leader epoch of the committed offset (KIP-320).
- 6: flexible.
- 7: ``require_stable``: UNSTABLE_OFFSET_COMMIT while a transaction is open (KIP-447).
- 8: several groups at a time, in ``groups`` (KIP-709).
- 9: member id and member epoch, checked if given (KIP-848).
- 10: topics go by id, no longer by name (KIP-848).
"""

from minikafka.protocol.schema import (
    ZERO_UUID,
    Request,
    Response,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class OffsetFetchRequestTopics(Struct):
    topic_id: bytes = uuid(versions="10+", default=ZERO_UUID)
    name: str = string(versions="8-9", default="")
    partition_indexes: list[int] = array(int32(), default_factory=list)


class OffsetFetchRequestGroup(Struct):
    group_id: str = string()
    member_id: str | None = string(versions="9+", nullable="9+", default=None)
    member_epoch: int = int32(versions="9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, nullable="0+")


class OffsetFetchRequestTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32(), default_factory=list)


class OffsetFetchRequest(Request, api_key=9, versions="1-10", flexible="6+"):
    groups: list[OffsetFetchRequestGroup] = array(
        OffsetFetchRequestGroup, versions="8+", default_factory=list
    )
    group_id: str = string(versions="1-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, versions="1-7", nullable="2-7", default_factory=list
    )
    require_stable: bool = boolean(versions="7+", default=False)


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1)
    metadata: str | None = string(nullable="0+")
    error_code: int = int16()


class OffsetFetchResponseTopics(Struct):
    topic_id: bytes = uuid(versions="10+", default=ZERO_UUID)
    name: str = string(versions="8-9", default="")
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions)


class OffsetFetchResponseGroup(Struct):
    group_id: str = string()
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics)
    error_code: int = int16(default=0)


class OffsetFetchResponsePartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(versions="5-7", default=-1)
    metadata: str | None = string(nullable="0+")
    error_code: int = int16()


class OffsetFetchResponseTopic(Struct):
    name: str = string()
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


class OffsetFetchResponse(Response, api_key=9, versions="1-10", flexible="6+"):
    throttle_time_ms: int = int32(versions="3+", default=0)
    groups: list[OffsetFetchResponseGroup] = array(
        OffsetFetchResponseGroup, versions="8+", default_factory=list
    )
    topics: list[OffsetFetchResponseTopic] = array(
        OffsetFetchResponseTopic, versions="1-7", default_factory=list
    )
    error_code: int = int16(versions="2-7", default=0)
