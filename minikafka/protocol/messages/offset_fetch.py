"""OffsetFetch (API 9): the committed offsets of groups.

A missing offset is -1, not an error; so are the offsets of a group that does not exist.

- 2: null topics request all of the group's; an error for the whole response (KIP-88).
- 5: the leader epoch of the committed offset (KIP-320).
- 6: flexible.
- 7: ``require_stable``: UNSTABLE_OFFSET_COMMIT while a transaction is open (KIP-447).
- 8: several groups at a time, in ``groups`` (KIP-709).
- 9: member id and member epoch, checked if given (KIP-848).
- 10: topic ids replace topic names (KIP-848).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import (
    ZERO_UUID,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class RequestGroupTopic(Struct):
    topic_id: bytes = uuid(versions="10+", default=ZERO_UUID)
    name: str = string(versions="8-9", default="")
    partition_indexes: list[int] = array(int32(), default_factory=list)


class RequestGroup(Struct):
    group_id: str = string()
    member_id: str | None = string(versions="9+", nullable="9+", default=None)
    member_epoch: int = int32(versions="9+", default=-1)
    topics: list[RequestGroupTopic] | None = array(RequestGroupTopic, nullable="0+")


class RequestTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32(), default_factory=list)


class Request(schema.Request, api_key=9, versions="1-10", flexible="6+"):
    groups: list[RequestGroup] = array(RequestGroup, versions="8+", default_factory=list)
    group_id: str = string(versions="1-7", default="")
    topics: list[RequestTopic] | None = array(
        RequestTopic, versions="1-7", nullable="2-7", default_factory=list
    )
    require_stable: bool = boolean(versions="7+", default=False)


class GroupPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1)
    metadata: str | None = string(nullable="0+")
    error_code: int = int16()


class ResponseGroupTopic(Struct):
    topic_id: bytes = uuid(versions="10+", default=ZERO_UUID)
    name: str = string(versions="8-9", default="")
    partitions: list[GroupPartition] = array(GroupPartition)


class ResponseGroup(Struct):
    group_id: str = string()
    topics: list[ResponseGroupTopic] = array(ResponseGroupTopic)
    error_code: int = int16(default=0)


class Partition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(versions="5-7", default=-1)
    metadata: str | None = string(nullable="0+")
    error_code: int = int16()


class ResponseTopic(Struct):
    name: str = string()
    partitions: list[Partition] = array(Partition)


class Response(schema.Response, api_key=9, versions="1-10", flexible="6+"):
    throttle_time_ms: int = int32(versions="3+", default=0)
    groups: list[ResponseGroup] = array(ResponseGroup, versions="8+", default_factory=list)
    topics: list[ResponseTopic] = array(ResponseTopic, versions="1-7", default_factory=list)
    error_code: int = int16(versions="2-7", default=0)
