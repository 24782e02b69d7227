"""DescribeTransactions (API 65): state and partitions of transactions (KIP-664)."""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int16, int32, int64, string


class Request(schema.Request, api_key=65, versions="0", flexible="0+"):
    transactional_ids: list[str] = array(string(), default_factory=list)


class TopicData(Struct):
    topic: str = string()
    partitions: list[int] = array(int32(), default_factory=list)


class TransactionState(Struct):
    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)


class Response(schema.Response, api_key=65, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    transaction_states: list[TransactionState] = array(TransactionState)
