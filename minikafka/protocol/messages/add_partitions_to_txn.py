"""AddPartitionsToTxn (API 24): a transaction is about to write to partitions (KIP-98).

Clients send versions 0 to 3. Version 4 and later are sent by brokers, for several transactions.

- 2: may answer PRODUCER_FENCED (KIP-588).
- 3: flexible.
- 4: ``transactions``; ``verify_only`` only checks that the partitions are in it (KIP-890).
- 5: may answer TRANSACTION_ABORTABLE (KIP-890).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, boolean, int16, int32, int64, string


class Topic(Struct):
    name: str = string()
    partitions: list[int] = array(int32(), default_factory=list)


class Transaction(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    verify_only: bool = boolean(default=False)
    topics: list[Topic] = array(Topic)


class Request(schema.Request, api_key=24, versions="0-5", flexible="3+"):
    transactions: list[Transaction] = array(Transaction, versions="4+", default_factory=list)
    v3_and_below_transactional_id: str = string(versions="0-3", default="")
    v3_and_below_producer_id: int = int64(versions="0-3", default=0)
    v3_and_below_producer_epoch: int = int16(versions="0-3", default=0)
    v3_and_below_topics: list[Topic] = array(Topic, versions="0-3", default_factory=list)


class PartitionResult(Struct):
    partition_index: int = int32()
    partition_error_code: int = int16()


class TopicResult(Struct):
    name: str = string()
    results_by_partition: list[PartitionResult] = array(PartitionResult)


class Result(Struct):
    transactional_id: str = string()
    topic_results: list[TopicResult] = array(TopicResult)


class Response(schema.Response, api_key=24, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(versions="4+", default=0)
    results_by_transaction: list[Result] = array(Result, versions="4+", default_factory=list)
    results_by_topic_v3_and_below: list[TopicResult] = array(
        TopicResult, versions="0-3", default_factory=list
    )
