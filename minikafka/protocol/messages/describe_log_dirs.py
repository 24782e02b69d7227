"""DescribeLogDirs (API 35): data directories and the partitions in them, with sizes (KIP-113).

- 2: flexible.
- 3: an error for the whole response.
- 4: total and usable bytes of the volume (KIP-827).
- 5: whether a directory is cordoned: it gets no new partitions (KIP-1066).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, boolean, int16, int32, int64, string


class DescribableLogDirTopic(Struct):
    topic: str = string()
    partitions: list[int] = array(int32(), default_factory=list)


class Request(schema.Request, api_key=35, versions="1-5", flexible="2+"):
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


class Partition(Struct):
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


class Topic(Struct):
    name: str = string()
    partitions: list[Partition] = array(Partition)


class Result(Struct):
    error_code: int = int16()
    log_dir: str = string()
    topics: list[Topic] = array(Topic)
    total_bytes: int = int64(versions="4+", default=-1)
    usable_bytes: int = int64(versions="4+", default=-1)
    is_cordoned: bool = boolean(versions="5+", default=False)


class Response(schema.Response, api_key=35, versions="1-5", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(versions="3+", default=0)
    results: list[Result] = array(Result)
