"""Properties of Kafka's own clients (``kafka.*``), translated to the options of ours.

What would break the connector is refused, what has no meaning here is accepted and does nothing
(there is no consumer group, so nothing of it has to be set), and a name that Kafka does not know is
refused, with the one that was probably meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from minikafka_client.options import ConnectionOptions
from minikafka_client.producer_options import ProducerOptions

from .errors import OptionError
from .options import KAFKA_PREFIX, Options, suggestion
from .security_properties import SECURITY_PROPERTIES, security_options

REFUSED: Final = {
    "auto.offset.reset": "use startingOffsets; the query remembers where it is",
    "key.deserializer": "keys are bytes; cast the column, or use from_json, from_avro, ...",
    "value.deserializer": "values are bytes; cast the column, or use from_json, from_avro, ...",
    "key.serializer": "keys are bytes or texts; use to_json, to_avro, ... in the query",
    "value.serializer": "values are bytes or texts; use to_json, to_avro, ... in the query",
    "enable.auto.commit": "offsets are kept in the query's checkpoint",
    "interceptor.classes": "they are Java classes, and might change records; do it in the query",
}
"""Properties that belong to the connector."""

_CONNECTION: Final = {
    "request.timeout.ms": "request_timeout_ms",
    "default.api.timeout.ms": "api_timeout_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
}
_READER: Final = {
    "max.partition.fetch.bytes": "partition_fetch_size_bytes_max",
    "fetch.max.bytes": "prefetch_size_bytes_max",
}
_PRODUCER: Final = {
    "batch.size": "batch_size_bytes",
    "buffer.memory": "buffer_memory_bytes",
    "max.request.size": "request_size_bytes_max",
    "linger.ms": "linger_ms",
    "max.in.flight.requests.per.connection": "max_in_flight",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "max.block.ms": "max_block_ms",
    "transaction.timeout.ms": "transaction_timeout_ms",
    "compression.level": "compression_level",
}
_OTHERS: Final = (
    "bootstrap.servers",
    "client.id",
    "check.crcs",
    "isolation.level",
    "acks",
    "enable.idempotence",
    "compression.type",
    "transactional.id",
)
WITHOUT_EFFECT: Final = (
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "client.dns.lookup",
    "client.rack",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "connections.max.idle.ms",
    "enable.metrics.push",
    "exclude.internal.topics",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "max.poll.records",
    "metadata.max.idle.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partition.assignment.strategy",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "partitioner.class",
    "partitioner.ignore.keys",
    "receive.buffer.bytes",
    "retries",
    "security.providers",
    "send.buffer.bytes",
    "session.timeout.ms",
    "socket.connection.setup.timeout.max.ms",
)
"""Properties of Kafka's clients that are accepted and change nothing here."""

_ALL: Final = (
    *_CONNECTION,
    *_READER,
    *_PRODUCER,
    *_OTHERS,
    *SECURITY_PROPERTIES,
    *WITHOUT_EFFECT,
)
_DEFAULT_CLIENT_ID: Final = "minikafka-spark"


@dataclass(frozen=True)
class KafkaProperties:
    """How to reach the cluster; it travels to the workers, so it holds texts only.

    Attributes:
        bootstrap: ``host:port``, several with commas between.
        properties: names without their prefix, in lower case.
    """

    bootstrap: str
    properties: Mapping[str, str] = field(repr=False)  # there are passwords among them

    def connection_options(self) -> ConnectionOptions:
        """Options of everything that connects.

        Raises:
            OptionError: a value cannot be understood.
        """
        found: dict[str, Any] = self._numbers(_CONNECTION)
        found["client_id"] = self.properties.get("client.id", _DEFAULT_CLIENT_ID)
        found.update(security_options(self.properties))
        return cast("ConnectionOptions", found)

    def reader_options(self) -> dict[str, Any]:
        """Options of `minikafka_client.sync.Reader`.

        Raises:
            OptionError: a value cannot be understood.
        """
        found: dict[str, Any] = self._numbers(_READER)
        if "check.crcs" in self.properties:
            found["check_crcs"] = self._boolean("check.crcs")
        return found

    def producer_options(self) -> ProducerOptions:
        """Options of a producer, without those of its connections.

        Raises:
            OptionError: a value cannot be understood.
        """
        found: dict[str, Any] = self._numbers(_PRODUCER)
        acks = self.properties.get("acks")
        if acks is not None:
            if acks not in ("all", "-1", "0", "1"):
                raise OptionError(f"kafka.acks={acks!r}; it is all, -1, 0 or 1")
            found["acks"] = acks if acks == "all" else int(acks)
        if "enable.idempotence" in self.properties:
            found["enable_idempotence"] = self._boolean("enable.idempotence")
        for name, option in (
            ("compression.type", "compression"),
            ("transactional.id", "transactional_id"),
        ):
            if name in self.properties:
                found[option] = self.properties[name]
        return cast("ProducerOptions", found)

    def _numbers(self, names: Mapping[str, str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, option in names.items():
            text = self.properties.get(name)
            if text is not None:
                found[option] = _parsed(name, text, int, "a whole number")
        return found

    def _boolean(self, name: str) -> bool:
        return bool(_parsed(name, self.properties[name], _boolean, "true or false"))


def kafka_properties(options: Options) -> KafkaProperties:
    """The properties among the options of a read or a write.

    Raises:
        OptionError: there are no bootstrap servers, a property is refused or unknown, or its value
            cannot be understood.
    """
    properties = options.kafka_properties()
    for name, value in properties.items():
        if name in REFUSED:
            raise OptionError(f"{KAFKA_PREFIX}{name} cannot be set; {REFUSED[name]}")
        if name not in _ALL:
            meant = suggestion(f"{KAFKA_PREFIX}{name}", [KAFKA_PREFIX + each for each in _ALL])
            raise OptionError(f"there is no option {KAFKA_PREFIX + name!r}{meant}")
        properties[name] = value.strip()
    bootstrap = properties.get("bootstrap.servers", "")
    if not bootstrap:
        raise OptionError("kafka.bootstrap.servers is missing; set it to host:port,host:port")
    found = KafkaProperties(bootstrap, properties)
    # Whatever cannot be understood is told now, and not by a task.
    found.connection_options()
    found.reader_options()
    found.producer_options()
    return found


def _parsed(name: str, text: str, parse: Callable[[str], Any], what: str) -> Any:
    try:
        return parse(text)
    except ValueError:
        raise OptionError(f"{KAFKA_PREFIX}{name}={text!r}; it is {what}") from None


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"
