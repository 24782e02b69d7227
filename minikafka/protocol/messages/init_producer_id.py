"""InitProducerId (API 22): get a producer id and epoch, for idempotence or transactions (KIP-98).

With a transactional id this also aborts the transaction that an older producer left open.

- 2: flexible.
- 3: a producer sends its current id and epoch, to recover from an error (KIP-360).
- 4: may answer PRODUCER_FENCED (KIP-588).
- 5: may answer TRANSACTION_ABORTABLE (KIP-890).
- 6: two-phase commit: a prepared transaction can be kept (KIP-939).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import boolean, int16, int32, int64, string


class Request(schema.Request, api_key=22, versions="0-6", flexible="2+"):
    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(versions="3+", default=-1)
    producer_epoch: int = int16(versions="3+", default=-1)
    enable2_pc: bool = boolean(versions="6+", default=False)
    keep_prepared_txn: bool = boolean(versions="6+", default=False)


class Response(schema.Response, api_key=22, versions="0-6", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64(versions="6+", default=-1)
    ongoing_txn_producer_epoch: int = int16(versions="6+", default=-1)
