"""ListTransactions (API 66): the transactions that one broker coordinates (KIP-664).

- 1: only those older than a duration (KIP-994).
- 2: only ids that match a regular expression (KIP-1152).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int16, int32, int64, string


class Request(schema.Request, api_key=66, versions="0-2", flexible="0+"):
    state_filters: list[str] = array(string(), default_factory=list)
    producer_id_filters: list[int] = array(int64(), default_factory=list)
    duration_filter: int = int64(versions="1+", default=-1)
    transactional_id_pattern: str | None = string(versions="2+", nullable="2+", default=None)


class TransactionState(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class Response(schema.Response, api_key=66, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string(), default_factory=list)
    transaction_states: list[TransactionState] = array(TransactionState)
