"""ListOffsets (API 2): look up an offset by timestamp, or at either end of the log.

``timestamp`` is in milliseconds; -1 is the end of the log, -2 its start.

- 2: the isolation level: the end of the log is the last stable offset for ``read_committed``.
- 4: leader epochs, in requests and responses (KIP-320).
- 5: may answer OFFSET_NOT_AVAILABLE right after an election (KIP-207).
- 6: flexible.
- 7: timestamp -3: the record with the largest timestamp (KIP-734).
- 8: timestamp -4: the local log start offset (KIP-405).
- 9: timestamp -5: the last offset in tiered storage (KIP-1005).
- 10: a timeout for reading tiered storage (KIP-1075).
- 11: timestamp -6: the first offset that is not yet in tiered storage (KIP-1023).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int8, int16, int32, int64, string


class Partition(Struct):
    partition_index: int = int32()
    current_leader_epoch: int = int32(versions="4+", default=-1)
    timestamp: int = int64()


class Topic(Struct):
    name: str = string()
    partitions: list[Partition] = array(Partition)


class Request(schema.Request, api_key=2, versions="1-11", flexible="6+"):
    replica_id: int = int32()
    isolation_level: int = int8(versions="2+", default=0)
    topics: list[Topic] = array(Topic)
    timeout_ms: int = int32(versions="10+", default=0)


class PartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32(versions="4+", default=-1)


class TopicResponse(Struct):
    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


class Response(schema.Response, api_key=2, versions="1-11", flexible="6+"):
    throttle_time_ms: int = int32(versions="2+", default=0)
    topics: list[TopicResponse] = array(TopicResponse)
