"""AddOffsetsToTxn (API 25): a transaction is about to commit offsets of a group (KIP-98).

- 2: may answer PRODUCER_FENCED (KIP-588).
- 3: flexible.
- 4: may answer TRANSACTION_ABORTABLE (KIP-890).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import int16, int32, int64, string


class Request(schema.Request, api_key=25, versions="0-4", flexible="3+"):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class Response(schema.Response, api_key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
