"""Properties of Kafka's own clients (``kafka.*``), translated to the options of ours.

A property that would break the connector is refused. One that is meaningless here (there is no
consumer group) is accepted and ignored, as long as Kafka would accept its value. A name that Kafka
does not know is refused, with a suggestion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from minikafka_client.core.cluster import parse_bootstrap
from minikafka_client.options import ConnectionOptions
from minikafka_client.security_properties import SECURITY_PROPERTIES, security_options

from .errors import OptionError
from .options import KAFKA_PREFIX, Options, parse_integer, suggestion

if TYPE_CHECKING:
    from minikafka_client.producer_options import ProducerOptions

REFUSED: Final = {
    "auto.offset.reset": "use startingOffsets; the query remembers where it is",
    "key.deserializer": "keys are bytes; cast the column, or use from_json, from_avro, ...",
    "value.deserializer": "values are bytes; cast the column, or use from_json, from_avro, ...",
    "key.serializer": "keys are bytes or strings; use to_json, to_avro, ... in the query",
    "value.serializer": "values are bytes or strings; use to_json, to_avro, ... in the query",
    "enable.auto.commit": "offsets are kept in the query's checkpoint",
    "interceptor.classes": "they are Java classes, and might change records; do it in the query",
}
"""Properties that belong to the connector."""

_CONNECTION: Final = {
    "request.timeout.ms": "request_timeout_ms",
    "default.api.timeout.ms": "default_api_timeout_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
    "socket.connection.setup.timeout.ms": "socket_connection_setup_timeout_ms",
}
_READER: Final = {
    "max.partition.fetch.bytes": "max_partition_fetch_bytes",
    "fetch.max.bytes": "prefetch_size_bytes_max",
}
_PRODUCER: Final = {
    "batch.size": "batch_size",
    "buffer.memory": "buffer_memory",
    "max.request.size": "max_request_size",
    "linger.ms": "linger_ms",
    "max.in.flight.requests.per.connection": "max_in_flight_requests_per_connection",
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
    "partitioner.class",
    "partitioner.ignore.keys",
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
    "receive.buffer.bytes",
    "retries",
    "security.providers",
    "send.buffer.bytes",
    "session.timeout.ms",
    "socket.connection.setup.timeout.max.ms",
)
"""Properties of Kafka's clients that are accepted and ignored."""

_BOOLEANS: Final = (
    "allow.auto.create.topics",
    "check.crcs",
    "enable.idempotence",
    "enable.metrics.push",
    "exclude.internal.topics",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.ignore.keys",
)
_NUMBERS: Final = (
    *_CONNECTION,
    *_READER,
    *_PRODUCER,
    *(name for name in WITHOUT_EFFECT if name.endswith((".ms", ".bytes", ".records"))),
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "metrics.num.samples",
    "retries",
)
Partitioning = Literal["default", "sticky", "round-robin"]
_PARTITIONERS: Final[dict[str, Partitioning]] = {
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "default",
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": "sticky",
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "round-robin",
}

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
    """How to reach the cluster. It is pickled for the workers, so it holds strings only.

    Attributes:
        bootstrap: ``host:port,host:port``.
        properties: names without the prefix, in lower case.
    """

    bootstrap: str
    properties: Mapping[str, str] = field(repr=False)  # contains passwords

    def connection_options(self) -> ConnectionOptions:
        """Options of everything that connects.

        Raises:
            OptionError: a value is malformed.
        """
        found: dict[str, Any] = self._numbers(_CONNECTION)
        found["client_id"] = self.properties.get("client.id", _DEFAULT_CLIENT_ID)
        try:
            found.update(security_options(self.properties))
        except ValueError as error:
            raise OptionError(f"{KAFKA_PREFIX}{error}") from error.__cause__
        return cast("ConnectionOptions", found)

    def reader_options(self) -> dict[str, Any]:
        """Options of `minikafka_client.sync.Reader`.

        Raises:
            OptionError: a value is malformed.
        """
        found: dict[str, Any] = self._numbers(_READER)
        if "check.crcs" in self.properties:
            found["check_crcs"] = self._boolean("check.crcs")
        return found

    def producer_options(self) -> ProducerOptions:
        """Options of a producer, without those of its connections.

        Raises:
            OptionError: a value is malformed.
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
            ("compression.type", "compression_type"),
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
                found[option] = _parsed(name, text, parse_integer, "a whole number")
        return found

    def partitioning(self) -> Partitioning:
        """Where a sink sends rows without a partition.

        Raises:
            OptionError: the partitioner is a Java class of the user's.
        """
        name = self.properties.get("partitioner.class", "")
        if name not in ("", "null", *_PARTITIONERS):
            raise OptionError(
                f"kafka.partitioner.class={name!r}: Java classes cannot be used here; set it to "
                f"{' or '.join(_PARTITIONERS)}, or give the rows a column 'partition'"
            )
        found = _PARTITIONERS.get(name, "default")
        if found == "default" and "partitioner.ignore.keys" in self.properties:
            return "sticky" if self._boolean("partitioner.ignore.keys") else "default"
        return found

    def _boolean(self, name: str) -> bool:
        return bool(_parsed(name, self.properties[name], _boolean, "true or false"))


def kafka_properties(options: Options) -> KafkaProperties:
    """The properties among the options of a read or a write.

    Raises:
        OptionError: there are no bootstrap servers, or a property is refused, unknown or malformed.
    """
    properties = options.kafka_properties()
    for name, value in properties.items():
        if name in REFUSED:
            raise OptionError(f"{KAFKA_PREFIX}{name} cannot be set; {REFUSED[name]}")
        if name not in _ALL:
            meant = suggestion(name, _ALL, prefix=KAFKA_PREFIX)
            raise OptionError(f"there is no option {KAFKA_PREFIX + name!r}{meant}")
        properties[name] = _checked(name, value.strip())
    addresses = properties.get("bootstrap.servers", "").split(",")
    bootstrap = ",".join(each.strip() for each in addresses if each.strip())
    if not bootstrap:
        raise OptionError("kafka.bootstrap.servers is missing; set it to host:port,host:port")
    _check_bootstrap(bootstrap)
    found = KafkaProperties(bootstrap, properties)
    # Malformed values fail here, on the driver, and not in a task.
    found.connection_options()
    found.reader_options()
    found.producer_options()
    return found


def _checked(name: str, text: str) -> str:
    """A value that Kafka would accept, even if it is ignored here."""
    if name in _NUMBERS:
        _parsed(name, text, parse_integer, "a whole number")
    elif name in _BOOLEANS:
        _parsed(name, text, _boolean, "true or false")
    return text


def _check_bootstrap(bootstrap: str) -> None:
    for address in bootstrap.split(","):
        if ":" not in address.rpartition("]")[2]:  # our client would assume 9092, Kafka's refuse it
            raise OptionError(
                f"kafka.bootstrap.servers={bootstrap!r}: {address!r} has no port; did you mean "
                f"'{address}:9092'?"
            )
    try:
        parse_bootstrap(bootstrap)
    except ValueError as error:
        raise OptionError(f"kafka.bootstrap.servers={bootstrap!r}: {error}") from None


def _parsed(name: str, text: str, parse: Callable[[str], Any], what: str) -> Any:
    try:
        return parse(text)
    except ValueError:
        raise OptionError(f"{KAFKA_PREFIX}{name}={text!r}; it is {what}") from None


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"
