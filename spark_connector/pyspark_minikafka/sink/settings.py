"""The options of a write, parsed and checked.

option             default                        meaning
topic              the column ``topic``           the topic of all rows
deliveryGuarantee  exactly-once for a stream,     see the package; a batch has at-least-once
at-least-once for a batch      only
sinkId             minikafka-spark                prefix of the transactional ids (for ACLs)
commitLogTopic     __minikafka_spark_commits      the topic of the commit log
twoPhaseCommit     auto                           auto, required or off (KIP-939)
failOnDataLoss     true                           see `errors.LostTransactionError`
kafka.*                                           properties of Kafka's producers
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from minikafka.protocol.records import Compression
from minikafka_client.producer_options import ProducerConfig, ProducerOptions

from ..environment import connector_version
from ..errors import OptionError
from ..kafka_properties import KafkaProperties, kafka_properties
from ..options import Options

Guarantee = Literal["exactly-once", "at-least-once"]
TwoPhaseCommit = Literal["auto", "required", "off"]

GUARANTEES: Final[tuple[Guarantee, ...]] = ("exactly-once", "at-least-once")
TWO_PHASE_COMMIT: Final[tuple[TwoPhaseCommit, ...]] = ("auto", "required", "off")

BATCH_SIZE_BYTES: Final = 512 * 1024
REQUEST_SIZE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Larger than a producer's defaults: a task has all its rows at once."""

_DEFAULT_SINK_ID: Final = "minikafka-spark"
_DEFAULT_COMMIT_LOG: Final = "__minikafka_spark_commits"
_SINK_ID_LENGTH_MAX: Final = 200


@dataclass(frozen=True)
class SinkSettings:
    """The options; they are pickled for the workers."""

    kafka: KafkaProperties
    topic: str | None
    guarantee: Guarantee
    sink_id: str
    commit_log_topic: str
    two_phase_commit: TwoPhaseCommit
    fail_on_data_loss: bool
    driver_version: str

    def producer_options(self) -> ProducerOptions:
        """Options of the writers in tasks, including those of connections."""
        found = {**self._own_options(), **self.kafka.connection_options()}
        return cast("ProducerOptions", found)

    def _own_options(self) -> dict[str, Any]:
        defaults = {
            "batch_size": BATCH_SIZE_BYTES,
            "max_request_size": REQUEST_SIZE_BYTES_MAX,
        }
        return {**defaults, **self.kafka.producer_options()}

    @property
    def batch_size_bytes(self) -> int:
        """The largest record batch, before compression."""
        config = ProducerConfig(**self._own_options())
        return min(config.batch_size, config.max_request_size)

    @property
    def compression(self) -> Compression:
        """The codec of record batches."""
        return Compression[ProducerConfig(**self._own_options()).compression_type.upper()]


def batch_settings(options: Options) -> SinkSettings:
    """The options of a batch write.

    Raises:
        OptionError: they are not those of a batch write.
    """
    found = _settings(options, "at-least-once")
    if found.guarantee == "exactly-once":
        raise OptionError(
            "deliveryGuarantee='exactly-once' is for streams: a repeated batch cannot be "
            "distinguished from another one; leave the option out, or use writeStream with "
            "trigger(availableNow=True)"
        )
    return found


def stream_settings(options: Options) -> SinkSettings:
    """The options of a streaming write.

    Raises:
        OptionError: they are not those of a streaming write.
    """
    return _settings(options, "exactly-once")


def _settings(options: Options, default_guarantee: Guarantee) -> SinkSettings:
    kafka = kafka_properties(options)
    if "transactional.id" in kafka.properties:
        raise OptionError(
            "kafka.transactional.id cannot be set, because each task needs one of its own; set "
            "sinkId, their prefix"
        )
    sink_id = options.text("sinkId") or _DEFAULT_SINK_ID
    if len(sink_id) > _SINK_ID_LENGTH_MAX:
        raise OptionError(
            f"sinkId has {len(sink_id)} characters; {_SINK_ID_LENGTH_MAX} are allowed"
        )
    topic = options.text("topic")
    if topic == "":
        raise OptionError("topic is empty; name a topic, or leave it out and add a column 'topic'")
    kafka.partitioning()
    found = SinkSettings(
        kafka,
        topic,
        options.choice("deliveryGuarantee", GUARANTEES, default_guarantee),
        sink_id,
        options.text("commitLogTopic") or _DEFAULT_COMMIT_LOG,
        options.choice("twoPhaseCommit", TWO_PHASE_COMMIT, "auto"),
        options.boolean("failOnDataLoss", default=True),
        connector_version(),
    )
    _check_producer(found)
    return found


def _check_producer(settings: SinkSettings) -> None:
    options: dict[str, Any] = {**settings.kafka.producer_options()}
    try:
        config = ProducerConfig(**options)
    except ValueError as error:
        raise OptionError(f"kafka.*: {error}") from None
    if settings.guarantee == "exactly-once" and not config.is_idempotent:
        raise OptionError(
            "deliveryGuarantee='exactly-once' needs kafka.acks=all, kafka.enable.idempotence=true "
            "and kafka.max.in.flight.requests.per.connection of at most 5; leave them out, or set "
            "deliveryGuarantee to at-least-once"
        )
