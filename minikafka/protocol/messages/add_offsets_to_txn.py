"""AddOffsetsToTxn (API 25): a transaction is about to commit offsets of a group (KIP-98).

- 2: may answer PRODUCER_FENCED (KIP-588).
- 3: flexible.
- 4: may answer TRANSACTION_ABORTABLE (KIP-890).
"""

from minikafka.protocol.schema import Request, Response, int16, int32, int64, string


class AddOffsetsToTxnRequest(Request, api_key=25, versions="0-4", flexible="3+"):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Response, api_key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
