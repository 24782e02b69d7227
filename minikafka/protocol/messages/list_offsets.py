"""ListOffsets (API 2): the offset at a point in time, or at an end of the log.

``timestamp`` is in milliseconds; -1 stands for the end of the log, -2 for its start.

- 2: the isolation level: the end of the log is the last stable offset for ``read_committed``.
- 4: leader epochs, both ways (KIP-320).
- 5: may answer OFFSET_NOT_AVAILABLE right after an election (KIP-207).
- 6: flexible.
- 7: timestamp -3: the record with the largest timestamp (KIP-734).
- 8: -4: the start of what is stored locally (KIP-405).
- 9: -5: the last offset in tiered storage (KIP-1005).
- 10: a timeout for looking into tiered storage (KIP-1075).
- 11: -6: the first offset that still waits for its upload (KIP-1023).
"""

from minikafka.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
)


class ListOffsetsPartition(Struct):
    partition_index: int = int32()
    current_leader_epoch: int = int32(versions="4+", default=-1)
    timestamp: int = int64()


class ListOffsetsTopic(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsRequest(Request, api_key=2, versions="1-11", flexible="6+"):
    replica_id: int = int32()
    isolation_level: int = int8(versions="2+", default=0)
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32(versions="10+", default=0)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32(versions="4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Response, api_key=2, versions="1-11", flexible="6+"):
    throttle_time_ms: int = int32(versions="2+", default=0)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
