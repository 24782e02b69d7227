"""Record batches as two other clients read and write them."""

import warnings
from collections.abc import Callable, Iterable

from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder

from minikafka.protocol.records import BatchFields, Compression, Record
from tests.protocol.records.strategies import RecordInput

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

Reader = Callable[[bytes], list[Record]]
Writer = Callable[[Iterable[RecordInput], BatchFields], bytes]


def _read_with(batch_class: Callable[[bytes], AiokafkaBatch], encoded: bytes) -> list[Record]:
    batch = batch_class(encoded)
    assert batch.validate_crc()
    return [
        Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in batch
    ]


def read_with_kafka_python(encoded: bytes) -> list[Record]:
    return _read_with(KafkaPythonBatch, encoded)


def read_with_aiokafka(encoded: bytes) -> list[Record]:
    return _read_with(AiokafkaBatch, encoded)


def _write_with(
    builder_class: Callable[..., AiokafkaBuilder],
    records: Iterable[RecordInput],
    fields: BatchFields,
) -> bytes:
    builder = builder_class(
        magic=2,
        compression_type=int(fields.get("compression", Compression.NONE)),
        is_transactional=fields.get("is_transactional", False),
        producer_id=fields.get("producer_id", -1),
        producer_epoch=fields.get("producer_epoch", -1),
        base_sequence=fields.get("base_sequence", -1),
        batch_size=1 << 30,
    )
    for index, (key, value, headers, timestamp) in enumerate(records):
        assert builder.append(index, timestamp, key, value, headers) is not None
    return bytes(builder.build())


def write_with_kafka_python(records: Iterable[RecordInput], fields: BatchFields) -> bytes:
    return _write_with(KafkaPythonBuilder, records, fields)


def write_with_aiokafka(records: Iterable[RecordInput], fields: BatchFields) -> bytes:
    return _write_with(AiokafkaBuilder, records, fields)


READERS: list[Reader] = [read_with_kafka_python, read_with_aiokafka]
WRITERS: list[Writer] = [write_with_kafka_python, write_with_aiokafka]
