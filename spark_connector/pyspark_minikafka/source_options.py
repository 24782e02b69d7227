"""The options of a read, parsed and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from minikafka_client.types import IsolationLevel, TopicPartition

from . import offset_specs
from .columns import COLUMN_NAMES
from .errors import OptionError
from .kafka_properties import KafkaProperties, kafka_properties
from .offset_specs import OffsetSpec, SpecKind
from .options import STRATEGIES, Options, suggestion
from .topic_pattern import PatternError, topic_matcher

MIN_RECORDS_PER_TASK: Final = 20_000
"""Reading this many records takes the 50 ms that a task costs Spark; smaller tasks are merged."""

_MAX_TRIGGER_DELAY_MS: Final = 15 * 60_000
_POLL_TIMEOUT_MS: Final = 120_000

OnlyIn = Literal["batch", "stream"]


@dataclass(frozen=True)
class TopicChoice:
    """The partitions to read; exactly one field is set.

    Attributes:
        assigned: these partitions.
        topics: all partitions of these topics.
        pattern: all partitions of the topics in whose names Java would find it.
    """

    assigned: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: str = ""


@dataclass(frozen=True)
class SourceOptions:
    """The options of a read, under their names in `options.py`.

    Attributes:
        columns: in order; None takes all, the headers only with ``includeHeaders``.
        isolation_level: READ_COMMITTED by default, which skips the records of aborted transactions
            and those of open ones. Topics without transactions are not affected.
        min_records_per_task: partitions with fewer records to read share a task.
        patience_ms: a task fails if it receives nothing for this long
            (``kafkaConsumer.pollTimeoutMs``).
    """

    kafka: KafkaProperties
    topics: TopicChoice
    starting: OffsetSpec
    ending: OffsetSpec
    uses_latest_without_timestamp: bool
    fail_on_data_loss: bool
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    min_records_per_task: int
    include_headers: bool
    columns: tuple[str, ...] | None
    isolation_level: IsolationLevel
    lookup_retries: int
    lookup_retry_interval_ms: int | None
    patience_ms: int


def batch_options(options: Options) -> SourceOptions:
    """The options of a batch.

    Raises:
        OptionError: they are not those of a batch.
    """
    found = general_options(options, SpecKind.EARLIEST)
    offset_specs.refuse_latest_start(found.starting)
    offset_specs.refuse_earliest_end(found.ending)
    return found


def stream_options(options: Options) -> SourceOptions:
    """The options of a stream.

    Raises:
        OptionError: they are not those of a stream.
    """
    for name in ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"):
        if name in options:
            raise OptionError(f"{name} is for batches; a stream has no end")
    found = general_options(options, SpecKind.LATEST)
    low, high = found.min_offsets_per_trigger, found.max_offsets_per_trigger
    if low is not None and high is not None and low > high:
        raise OptionError(f"minOffsetsPerTrigger={low} is greater than maxOffsetsPerTrigger={high}")
    return found


def general_options(options: Options, start: SpecKind = SpecKind.EARLIEST) -> SourceOptions:
    """The options that batches and streams share.

    Raises:
        OptionError: an option is missing, contradicts another one or is malformed.
    """
    interval_ms = options.integer("fetchOffset.retryIntervalMs", at_least=0)
    return SourceOptions(
        kafka=kafka_properties(options),
        topics=_topics(options),
        starting=offset_specs.starting(options, start),
        ending=offset_specs.ending(options),
        uses_latest_without_timestamp=options.choice(
            "startingOffsetsByTimestampStrategy", ("error", "latest"), "error"
        )
        == "latest",
        fail_on_data_loss=options.boolean("failOnDataLoss", default=True),
        max_offsets_per_trigger=options.integer("maxOffsetsPerTrigger"),
        min_offsets_per_trigger=options.integer("minOffsetsPerTrigger"),
        max_trigger_delay_ms=options.duration_ms("maxTriggerDelay", _MAX_TRIGGER_DELAY_MS),
        min_partitions=options.integer("minPartitions"),
        max_records_per_partition=options.integer("maxRecordsPerPartition"),
        min_records_per_task=options.integer("minRecordsPerTask") or MIN_RECORDS_PER_TASK,
        include_headers=options.boolean("includeHeaders", default=False),
        columns=_columns(options),
        isolation_level=_isolation_level(options),
        lookup_retries=options.integer("fetchOffset.numRetries", at_least=0) or 0,
        lookup_retry_interval_ms=interval_ms,
        patience_ms=options.integer("kafkaConsumer.pollTimeoutMs") or _POLL_TIMEOUT_MS,
    )


def _topics(options: Options) -> TopicChoice:
    given = [name for name in STRATEGIES if name in options]
    if not given:
        raise OptionError(f"no topics were chosen: set one of {', '.join(STRATEGIES)}")
    if len(given) > 1:
        raise OptionError(f"{' and '.join(given)} are both set; set only one of them")
    text = options.text(given[0]) or ""
    match given[0]:
        case "assign":
            return TopicChoice(assigned=offset_specs.assigned(text))
        case "subscribe":
            topics = tuple(sorted({topic.strip() for topic in text.split(",")} - {""}))
            if not topics:
                raise OptionError(f"subscribe={text!r} names no topic; give a,b,c")
            return TopicChoice(topics=topics)
        case _:
            return TopicChoice(pattern=_pattern(text))


def _pattern(text: str) -> str:
    if not text:
        raise OptionError("subscribePattern is empty; set it to a regular expression like ^orders-")
    try:
        topic_matcher(text)
    except PatternError as error:
        raise OptionError(
            f"subscribePattern={text!r} is not a regular expression of Java's that Python can "
            f"evaluate: {error}"
        ) from None
    return text


def _columns(options: Options) -> tuple[str, ...] | None:
    text = options.text("columns")
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in COLUMN_NAMES:
            meant = suggestion(name, COLUMN_NAMES) or f"; there are {', '.join(COLUMN_NAMES)}"
            raise OptionError(f"columns={text!r}: there is no column {name!r}{meant}")
    if len(set(names)) < len(names):
        raise OptionError(f"columns={text!r}: a column is named twice")
    return names


def _isolation_level(options: Options) -> IsolationLevel:
    name = "isolationLevel" if "isolationLevel" in options else "kafka.isolation.level"
    levels = ("read_committed", "read_uncommitted")
    return IsolationLevel[options.choice(name, levels, "read_committed").upper()]
