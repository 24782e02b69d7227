"""Answers with very many entries: joined buffers, and memory that is given back in pieces."""

from minikafka.broker.net.large_answers import encode_large, free
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.frames import encode_response
from minikafka.protocol.messages import fetch

COUNT = 3000


def answer_with(size_bytes: int) -> fetch.Response:
    """One topic; every hundredth partition has records."""
    return fetch.Response(
        responses=[
            fetch.TopicResponse(
                topic="t",
                partitions=[
                    fetch.PartitionData(
                        partition_index=number,
                        error_code=ErrorCode.NONE,
                        high_watermark=number,
                        aborted_transactions=None,
                        records=bytes([number % 256]) * size_bytes if number % 100 == 0 else b"",
                    )
                    for number in range(COUNT)
                ],
            )
        ]
    )


def test_joined_buffers_are_the_same_bytes() -> None:
    for size_bytes in (10, 5000):
        answer = answer_with(size_bytes)
        parts = encode_large(answer, 11, 7)
        assert b"".join(parts) == b"".join(encode_response(answer, 11, 7))
        assert len(parts) < 100


def test_a_list_is_emptied_unless_somebody_else_has_it() -> None:
    freed, kept = answer_with(10), answer_with(10)
    partitions = kept.responses[0].partitions
    free(freed, kept)
    assert freed.responses[0].partitions == []
    assert len(partitions) == COUNT
