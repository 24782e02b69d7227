"""How exactly a producer is held at its quota."""

from __future__ import annotations

import time
from collections.abc import Iterator

from minikafka_client.sync import AdminClient
from minikafka_client.types import NewTopic, QuotaEntity

from ..processes import broker
from ..workload import Figure, Round, Run, Workload

QUOTA_BYTES_PER_SECOND = 1_000_000
VALUE_BYTES = 1000
WARM_UP_SECONDS = 5
SECONDS = 22


def measure(run: Run) -> Iterator[Round]:
    """One producer that sends as fast as it is let, after it has used up what it had saved."""
    for number in range(run.rounds):
        with run.fresh_folder() as folder, broker(folder) as server:
            client_id = f"limited-{number}"
            with AdminClient(server.bootstrap) as admin:
                admin.create_topics([NewTopic("t")])
                limits = {"producer_byte_rate": float(QUOTA_BYTES_PER_SECOND)}
                admin.alter_client_quotas({QuotaEntity(client_id=client_id): limits})
            run.say(f"round {number + 1} of {run.rounds}: {WARM_UP_SECONDS + SECONDS} seconds")
            yield {"rate": _rate(server.bootstrap, client_id), "quota": QUOTA_BYTES_PER_SECOND}


def _rate(bootstrap: str, client_id: str) -> float:
    """The bytes of values per second that librdkafka gets acknowledged."""
    from confluent_kafka import KafkaError, Message, Producer

    acknowledged: list[float] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is None:
            acknowledged.append(time.monotonic())

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "queue.buffering.max.messages": 5000,
            "batch.size": 100_000,
            "message.timeout.ms": 600_000,
        }
    )
    value = b"x" * VALUE_BYTES
    began = time.monotonic()
    ends = began + WARM_UP_SECONDS + SECONDS
    while time.monotonic() < ends:
        try:
            producer.produce("t", value, on_delivery=delivered)
        except BufferError:
            producer.poll(0.01)
    producer.purge()
    producer.flush(10)
    counted = [at for at in acknowledged if began + WARM_UP_SECONDS <= at < ends]
    return len(counted) * VALUE_BYTES / SECONDS


WORKLOAD = Workload(
    name="quota-accuracy",
    measures="A producer of 1,000-byte values with producer_byte_rate=1000000, over 22 seconds: "
    "two spans of the rate, after the first burst. It comes in bursts, as in Kafka.",
    function=measure,
    figures=(
        Figure(name="rate over quota", unit="x", of="rate", per="quota", at_most=1.1),
        Figure(name="rate over quota, at least", unit="x", of="rate", per="quota", at_least=0.9),
        Figure(name="rate", unit="bytes/s", of="rate"),
    ),
    rounds=2,
)
