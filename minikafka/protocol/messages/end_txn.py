"""EndTxn (API 26): commit or abort a transaction (KIP-98).

- 2: may answer PRODUCER_FENCED (KIP-588).
- 3: flexible.
- 4: may answer TRANSACTION_ABORTABLE (KIP-890).
- 5: the producer epoch rises with every transaction; the response has the new one (KIP-890).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import boolean, int16, int32, int64, string


class Request(schema.Request, api_key=26, versions="0-5", flexible="3+"):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class Response(schema.Response, api_key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    producer_id: int = int64(versions="5+", default=-1)
    producer_epoch: int = int16(versions="5+", default=-1)
