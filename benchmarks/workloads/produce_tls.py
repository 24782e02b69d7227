"""Records of 1,000 bytes over TLS, beside the same without."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..certificates import secured_broker
from ..load.produce import ProduceJob, produce
from ..processes import cpu_seconds
from ..workload import Figure, Round, Run, Workload

RECORDS = 500_000
VALUE_BYTES = 1000
_RECORD_BYTES = VALUE_BYTES + 10  # what it takes in a batch, roughly


def measure(run: Run) -> Iterator[Round]:
    """A fresh broker for each side, with the same producer."""
    records = run.scaled(RECORDS)

    def side(name: str, listener: str) -> Callable[[], Round]:
        def produce_there() -> Round:
            with (
                run.fresh_folder(records * _RECORD_BYTES) as folder,
                secured_broker(folder) as (server, trusted),
            ):
                before = cpu_seconds(server.pid)
                job = ProduceJob(
                    bootstrap=server.bootstrap,
                    topic="large",
                    records=records,
                    value_bytes=VALUE_BYTES,
                    creates_topic=True,
                    settings={
                        "bootstrap.servers": server.bootstrap_of(listener),
                        "security.protocol": listener,
                        "ssl.ca.location": str(trusted),
                    },
                )
                produced = produce(job)
                cpu = (cpu_seconds(server.pid) - before) / (records * VALUE_BYTES)
                return {
                    name: produced.megabytes_per_second(VALUE_BYTES),
                    f"{name} cpu": 1e9 * cpu,
                }

        return produce_there

    return run.interleaved(tls=side("tls", "SSL"), plain=side("plain", "PLAINTEXT"))


WORKLOAD = Workload(
    name="produce-tls",
    measures="500,000 records of 1,000 bytes, acks=1, through confluent-kafka, to the TLS listener "
    "and to the plain one of the same broker.",
    function=measure,
    rounds=5,
    figures=(
        Figure(name="TLS over plain", unit="x", of="tls", per="plain", at_least=0.5),
        Figure(name="TLS", unit="MB/s", of="tls"),
        Figure(name="plain", unit="MB/s", of="plain"),
        Figure(name="broker's processor time with TLS", unit="s/GB", of="tls cpu"),
        Figure(name="without", unit="s/GB", of="plain cpu"),
    ),
)
