"""What one client wrote, every client reads: all codecs, every shape of record, both clocks."""

from __future__ import annotations

import time

import pytest

from minikafka.protocol.records import Compression
from tests.interop.clients import AIOKAFKA, CLIENTS, CODECS, CONFLUENT, Outgoing, consume, produce
from tests.kit.live import JudgedBroker
from tests.kit.wire import MakeTopic, Wire

pytestmark = pytest.mark.interop

LONG_TEXT = b"the same words again and again; " * 64
RECORDS = [
    Outgoing(b"value only"),
    Outgoing(b"with a key", b"key"),
    Outgoing(None, b"tombstone"),
    Outgoing(b"", b"", timestamp_ms=1),
    Outgoing(bytes(range(256)), "key in UTF-8: ключ 🦊".encode(), timestamp_ms=2**42),
    Outgoing(b"headers", None, (("trace", b"\x00\xff"), ("имя", "значение".encode()))),
    Outgoing(b"twice the same header", None, (("again", b"1"), ("again", b"2"), ("", b""))),
    Outgoing(b"earlier than those before", b"key", timestamp_ms=1_500_000_000_000),
    *(Outgoing(LONG_TEXT + b"%d" % number, b"%d" % (number % 3)) for number in range(40)),
]
FIRST_LONG = len(RECORDS) - 40
COMPRESSION = {codec: Compression[codec.upper()] for codec in CODECS}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_reads_what_this_one_wrote(
    client: str, codec: str, broker: JudgedBroker, make_topic: MakeTopic
) -> None:
    topic = make_topic(message_timestamp_after_max_ms=2**62)
    produce(client, broker.bootstrap, topic, RECORDS, codec)
    for reader in CLIENTS:
        received = consume(reader, broker.bootstrap, topic, len(RECORDS))
        assert [one.sent for one in received] == RECORDS, f"read by {reader}"
        assert [one.offset for one in received] == list(range(len(RECORDS)))
        assert not any(one.is_append_time for one in received)
    with Wire(broker.bootstrap) as wire:
        batches = wire.stored_batches(topic)
    # librdkafka splits them as it likes, and leaves what would not shrink uncompressed.
    assert {one.compression for one in batches if one.next_offset > FIRST_LONG} == {
        COMPRESSION[codec]
    }


@pytest.mark.parametrize("codec", CODECS)
def test_a_topic_with_a_codec_recompresses_all_batches(
    codec: str, broker: JudgedBroker, make_topic: MakeTopic
) -> None:
    topic = make_topic(
        compression_type="uncompressed" if codec == "none" else codec,
        message_timestamp_after_max_ms=2**62,
    )
    sent: list[Outgoing] = []
    for client, sent_in in zip(CLIENTS, ("zstd", "none", "gzip"), strict=True):
        produce(client, broker.bootstrap, topic, RECORDS, sent_in)
        sent += RECORDS
    with Wire(broker.bootstrap) as wire:
        assert {batch.compression for batch in wire.stored_batches(topic)} == {COMPRESSION[codec]}
    for reader in CLIENTS:
        received = consume(reader, broker.bootstrap, topic, len(sent))
        assert [one.sent for one in received] == sent
        assert [one.offset for one in received] == list(range(len(sent)))


@pytest.mark.parametrize("client", [CONFLUENT, AIOKAFKA])  # kafka-python cannot send them
def test_null_header_values_arrive_as_null(client: str, broker: JudgedBroker, topic: str) -> None:
    record = Outgoing(b"v", None, (("null", None), ("empty", b"")))
    produce(client, broker.bootstrap, topic, [record])
    for reader in CLIENTS:
        assert [one.sent for one in consume(reader, broker.bootstrap, topic, 1)] == [record]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("client", CLIENTS)
def test_with_log_append_time_the_broker_stamps_the_records(
    client: str, codec: str, broker: JudgedBroker, make_topic: MakeTopic
) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    produce(client, broker.bootstrap, topic, RECORDS, codec)
    after_ms = int(time.time() * 1000)
    seen = []
    for reader in CLIENTS:
        received = consume(reader, broker.bootstrap, topic, len(RECORDS))
        assert all(one.is_append_time for one in received)
        assert all(before_ms <= one.timestamp_ms <= after_ms for one in received)
        assert [one.value for one in received] == [one.value for one in RECORDS]
        seen.append([one.timestamp_ms for one in received])
    assert seen[0] == seen[1] == seen[2]
