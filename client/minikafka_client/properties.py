"""Kafka's own configuration properties, translated to the options of our clients.

``Producer.from_config({"bootstrap.servers": ..., "linger.ms": 5})`` and its siblings take the names
and values that confluent-kafka and Java programs use: Kafka's names, and librdkafka's where they
mean exactly the same. A value may be a text, a number or a bool; None is the default.

Every known property is in one of these groups:

- It sets an option. Two names of one option must agree.
- It belongs to another kind of client, or tunes something that this client does not have
  (`WITHOUT_EFFECT`). It is accepted, and all of these are logged in one line at INFO.
- Ignoring it would change what the program does (`REFUSED`): ValueError, with what to do instead.

Any other name is a TypeError that suggests the nearest known one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from minikafka_client.consumer_options import ConsumerOptions
from minikafka_client.core.assignors.registry import ASSIGNORS
from minikafka_client.log_events import LogEvent
from minikafka_client.options import ConnectionOptions, suggestion
from minikafka_client.producer_options import ProducerOptions
from minikafka_client.security_properties import (
    SECRETS,
    SECURITY_PROPERTIES,
    names,
    security_options,
)
from minikafka_client.share_options import ShareConsumerOptions

logger = logging.getLogger(__name__)


def admin_options(config: Mapping[str, object], owner: str) -> tuple[str, ConnectionOptions]:
    """Bootstrap servers and options of an admin client.

    Args:
        config: properties by Kafka's names.
        owner: the class that messages name.

    Raises:
        TypeError: a property is unknown.
        ValueError: a property is refused, a value is malformed, or there are no bootstrap servers.
    """
    bootstrap_servers, options = _translate(config, owner, _CONNECTION)
    return bootstrap_servers, cast("ConnectionOptions", options)


def producer_options(config: Mapping[str, object], owner: str) -> tuple[str, ProducerOptions]:
    """The same for a producer."""
    bootstrap_servers, options = _translate(config, owner, _CONNECTION | _PRODUCER)
    # Java clients have a level for each codec (KIP-390).
    level = options.pop(f"compression.{options.get('compression_type')}.level", None)
    if level is not None:
        options.setdefault("compression_level", level)
    for codec in _LEVELS:
        options.pop(f"compression.{codec}.level", None)
    return bootstrap_servers, cast("ProducerOptions", options)


def consumer_options(config: Mapping[str, object], owner: str) -> tuple[str, ConsumerOptions]:
    """The same for a consumer."""
    bootstrap_servers, options = _translate(config, owner, _CONNECTION | _CONSUMER)
    return bootstrap_servers, cast("ConsumerOptions", options)


def share_consumer_options(
    config: Mapping[str, object], owner: str
) -> tuple[str, str, ShareConsumerOptions]:
    """The same for a share consumer, with its group in between."""
    refused = sorted(name for name in config.keys() & _NOT_OF_SHARES if config[name] is not None)
    if refused:
        raise ValueError(
            f"{owner}: {', '.join(refused)} cannot be set for a share group; what it begins with "
            "and reads are settings of the group at the broker, such as share.auto.offset.reset"
        )
    bootstrap_servers, options = _translate(config, owner, _CONNECTION | _SHARE_CONSUMER)
    if "group_id" not in options:
        raise ValueError(f"{owner}: group.id is missing; set it to the name of the share group")
    group_id: str = options.pop("group_id")
    return bootstrap_servers, group_id, cast("ShareConsumerOptions", options)


def _translate(
    config: Mapping[str, object], owner: str, known: Mapping[str, _Property]
) -> tuple[str, dict[str, Any]]:
    given = {name: value for name, value in config.items() if value is not None}
    _check_names(given, owner, known)
    options: dict[str, Any] = {}
    set_by: dict[str, str] = {}
    for name in given.keys() & known.keys():
        option, parse = known[name]
        parsed = _parsed(owner, name, given[name], parse)
        if options.setdefault(option, parsed) != parsed:
            raise ValueError(f"{owner}: {set_by[option]} and {name} contradict each other")
        set_by[option] = name
    security = {name: _text(given[name]) for name in given.keys() & SECURITY_PROPERTIES}
    try:
        options |= security_options(security)
    except ValueError as error:
        raise ValueError(f"{owner}: {error}") from error.__cause__
    ignored = given.keys() & (_ALL_KNOWN - known.keys())
    for prefix, option in (("sasl.", "sasl"), ("ssl.", "ssl_context")):
        if option not in options:
            ignored |= {name for name in security if name.startswith(prefix)}
    if ignored:
        logger.info(
            "%s: these properties have no effect: %s",
            owner,
            ", ".join(sorted(ignored)),
            extra=LogEvent.PROPERTIES_IGNORED.about(properties=sorted(ignored)),
        )
    bootstrap_servers: str = options.pop("bootstrap_servers", "")
    if not bootstrap_servers:
        raise ValueError(f"{owner}: bootstrap.servers is missing; set it to 'host:port,host:port'")
    return bootstrap_servers, options


def _check_names(given: Mapping[str, object], owner: str, known: Mapping[str, _Property]) -> None:
    for name, value in given.items():
        if name in REFUSED:
            accepted, advice = REFUSED[name]
            if _text(value).lower() not in accepted:
                raise ValueError(f"{owner}: {name} cannot be set to {value!r}; {advice}")
        elif name not in _ALL_KNOWN and name not in SECURITY_PROPERTIES:
            meant = suggestion(name, [*known, *SECURITY_PROPERTIES])
            raise TypeError(f"{owner}: there is no property {name!r}{meant}")


# --- values --------------------------------------------------------------------------------------


class _Property(NamedTuple):
    option: str
    parse: Callable[[object], object]
    """Raises ValueError with what the value should be."""


def _parsed(owner: str, name: str, value: object, parse: Callable[[object], object]) -> object:
    try:
        return parse(value)
    except ValueError as error:
        shown = "..." if name in SECRETS else repr(value)
        raise ValueError(f"{owner}: {name}={shown}; it is {error}") from None


def _text(value: object) -> str:
    return str(value).strip()


def _whole(value: object) -> int:
    number = _number(value)
    if not number.is_integer():
        raise ValueError("a whole number")
    return int(number)


def _number(value: object) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(_text(value))
    except ValueError:
        raise ValueError("a number") from None


def _kibibytes(value: object) -> int:
    return _whole(value) * 1024


def _boolean(value: object) -> bool:
    text = _text(value).lower()
    if text not in ("true", "false", "1", "0"):
        raise ValueError("true or false")
    return text in ("true", "1")


def _acks(value: object) -> str | int:
    text = _text(value)
    if text not in ("all", "-1", "0", "1"):
        raise ValueError("all, -1, 0 or 1")
    return "all" if text in ("all", "-1") else int(text)


def _lower(value: object) -> str:
    return _text(value).lower()


def _offset_reset(value: object) -> str:
    text = _text(value).lower()
    return {
        "smallest": "earliest",
        "beginning": "earliest",
        "largest": "latest",
        "end": "latest",
        "error": "none",
    }.get(text, text)


def _level(value: object) -> int | None:
    level = _whole(value)
    return None if level == -1 else level


def _timeout(value: object) -> int:
    timeout_ms = _whole(value)
    if timeout_ms <= 0:
        raise ValueError("above 0: there is no delivery without an end")
    return timeout_ms


def _servers(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, Iterable):
        return ",".join(map(str, cast("Iterable[object]", value)))
    raise ValueError("a text, or a list of 'host:port'")


_JAVA_ASSIGNORS: Final = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}


def _assignors(value: object) -> Sequence[object]:
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, Iterable):
        raise ValueError(f"one or more of {', '.join(ASSIGNORS)}")
    chosen: list[object] = []
    for each in cast("Iterable[object]", given):
        name = _JAVA_ASSIGNORS.get(each.strip(), each.strip()) if isinstance(each, str) else each
        if isinstance(name, str) and name not in ASSIGNORS:
            raise ValueError(f"one or more of {', '.join(ASSIGNORS)}, or their Java classes")
        chosen.append(name)
    return chosen


def _partitioner(value: object) -> object:
    if callable(value):
        return value
    if _text(value) not in _DEFAULT_PARTITIONERS:
        raise ValueError(
            "murmur2_random (Kafka's default), or a function of topic, key, value and partition "
            "count"
        )
    return None


_DEFAULT_PARTITIONERS: Final = (
    "murmur2_random",
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner",
)


# --- properties that set an option ---------------------------------------------------------------

_LEVELS: Final = ("gzip", "lz4", "zstd")


def _same_names(parse: Callable[[object], object], properties: str) -> dict[str, _Property]:
    """Properties whose option has the same name, with underscores."""
    return {name: _Property(name.replace(".", "_"), parse) for name in names(properties)}


_CONNECTION: Final[dict[str, _Property]] = {
    "client.id": _Property("client_id", _text),
    **_same_names(
        _whole,
        """
            request.timeout.ms default.api.timeout.ms metadata.max.age.ms
            reconnect.backoff.ms reconnect.backoff.max.ms retry.backoff.ms
            retry.backoff.max.ms socket.connection.setup.timeout.ms
        """,
    ),
    "bootstrap.servers": _Property("bootstrap_servers", _servers),
    "metadata.broker.list": _Property("bootstrap_servers", _servers),
    "socket.timeout.ms": _Property("request_timeout_ms", _whole),
    "receive.message.max.bytes": _Property("response_size_bytes_max", _whole),
}
_PRODUCER: Final[dict[str, _Property]] = {
    **_same_names(_boolean, "enable.idempotence transaction.two.phase.commit.enable"),
    **_same_names(
        _whole,
        """
            batch.size buffer.memory max.request.size
            max.in.flight.requests.per.connection max.block.ms transaction.timeout.ms
        """,
    ),
    "transactional.id": _Property("transactional_id", _text),
    "acks": _Property("acks", _acks),
    "request.required.acks": _Property("acks", _acks),
    "linger.ms": _Property("linger_ms", _number),
    "queue.buffering.max.ms": _Property("linger_ms", _number),
    "queue.buffering.max.kbytes": _Property("buffer_memory", _kibibytes),
    "message.max.bytes": _Property("max_request_size", _whole),
    "compression.type": _Property("compression_type", _lower),
    "compression.codec": _Property("compression_type", _lower),
    "compression.level": _Property("compression_level", _level),
    **{
        f"compression.{codec}.level": _Property(f"compression.{codec}.level", _whole)
        for codec in _LEVELS
    },
    "max.in.flight": _Property("max_in_flight_requests_per_connection", _whole),
    "delivery.timeout.ms": _Property("delivery_timeout_ms", _timeout),
    "message.timeout.ms": _Property("delivery_timeout_ms", _timeout),
    "partitioner": _Property("partitioner", _partitioner),
    "partitioner.class": _Property("partitioner", _partitioner),
}
_CONSUMER: Final[dict[str, _Property]] = {
    **_same_names(
        _text,
        """
            group.id group.instance.id group.remote.assignor client.rack
        """,
    ),
    **_same_names(
        _boolean,
        """
            enable.auto.commit check.crcs allow.auto.create.topics
        """,
    ),
    **_same_names(
        _whole,
        """
            auto.commit.interval.ms session.timeout.ms heartbeat.interval.ms
            max.poll.interval.ms fetch.min.bytes fetch.max.wait.ms fetch.max.bytes
            max.partition.fetch.bytes
        """,
    ),
    "auto.offset.reset": _Property("auto_offset_reset", _offset_reset),
    "auto.commit.enable": _Property("enable_auto_commit", _boolean),
    "group.protocol": _Property("group_protocol", _lower),
    "isolation.level": _Property("isolation_level", _lower),
    "partition.assignment.strategy": _Property("partition_assignment_strategy", _assignors),
    "fetch.wait.max.ms": _Property("fetch_max_wait_ms", _whole),
    "fetch.message.max.bytes": _Property("max_partition_fetch_bytes", _whole),
    "queued.max.messages.kbytes": _Property("prefetch_size_bytes_max", _kibibytes),
}

_SHARE_CONSUMER: Final[dict[str, _Property]] = {
    **{
        name: _CONSUMER[name]
        for name in names(
            """
            group.id client.rack check.crcs allow.auto.create.topics max.poll.interval.ms
            fetch.min.bytes fetch.max.wait.ms fetch.wait.max.ms fetch.max.bytes
            """
        )
    },
    **_same_names(_whole, "max.poll.records"),
    **_same_names(_lower, "share.acknowledgement.mode share.acquire.mode"),
}
_NOT_OF_SHARES: Final = names(
    """
    auto.offset.reset enable.auto.commit auto.commit.enable group.instance.id group.protocol
    group.remote.assignor heartbeat.interval.ms isolation.level partition.assignment.strategy
    session.timeout.ms
    """
)
"""Kafka's share consumers refuse them, too."""

# --- properties that set none --------------------------------------------------------------------

WITHOUT_EFFECT: Final = names(
    """
    api.version.fallback.ms api.version.request api.version.request.timeout.ms batch.num.messages
    broker.address.family broker.address.ttl broker.version.fallback client.dns.lookup
    connections.max.idle.ms consume.callback.max.messages coordinator.query.interval.ms debug
    delivery.report.only.error enable.metrics.push enable.random.seed exclude.internal.topics
    fetch.error.backoff.ms fetch.queue.backoff.ms group.protocol.type internal.termination.signal
    log.connection.close log.queue log.thread.name log_level max.poll.records message.copy.max.bytes
    message.send.max.retries metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms
    metadata.recovery.strategy metric.reporters metrics.num.samples metrics.recording.level
    metrics.sample.window.ms offset.store.method partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms queue.buffering.backpressure.threshold
    queue.buffering.max.messages queued.min.messages receive.buffer.bytes retries security.providers
    send.buffer.bytes socket.blocking.max.ms socket.connection.setup.timeout.max.ms
    socket.keepalive.enable socket.max.fails socket.nagle.disable socket.receive.buffer.bytes
    socket.send.buffer.bytes statistics.interval.ms sticky.partitioning.linger.ms
    topic.metadata.propagation.max.ms topic.metadata.refresh.fast.cnt
    topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms
    topic.metadata.refresh.sparse
    """
)
"""Accepted, and change nothing: buffers and timers that this client does not have, or that it has
without a switch. It sends without Nagle's delay, retries until ``delivery.timeout.ms`` is over, and
keeps count in `statistics` instead of reporting."""


_SERIALIZERS: Final = (
    (),
    "pass key_serializer= or value_deserializer= and the like to from_config",
)
_HANDLES: Final = ((), "await (or ask) the handle that send returns")
_TLS_BY_HAND: Final = ((), "pass ssl_context= to the constructor")
_SASL_BY_HAND: Final = ((), "pass sasl= to the constructor; see minikafka_client.sasl")

REFUSED: Final[Mapping[str, tuple[Sequence[str], str]]] = {
    # Callbacks.
    "on_delivery": _HANDLES,
    "dr_cb": _HANDLES,
    "dr_msg_cb": _HANDLES,
    "on_commit": ((), "await commit, or pass callback= to commit_nowait"),
    "error_cb": ((), "errors are raised where they matter, and logged; use logging"),
    "throttle_cb": ((), "there is no such callback"),
    "stats_cb": ((), "call statistics()"),
    "log_cb": ((), "use logging; the loggers' names begin with 'minikafka_client'"),
    "logger": ((), "use logging; the loggers' names begin with 'minikafka_client'"),
    "oauth_cb": _SASL_BY_HAND,
    "rebalance_cb": ((), "pass on_partitions_assigned= and the like to from_config"),
    # What changes records, or whose loss would.
    **dict.fromkeys(
        names("key.serializer value.serializer key.deserializer value.deserializer"), _SERIALIZERS
    ),
    "interceptor.classes": ((), "interceptors are Java classes"),
    "plugin.library.paths": ((), "plugins are libraries for librdkafka"),
    "default.topic.config": ((), "write its entries beside the others"),
    "partitioner.ignore.keys": (("false", "0"), "pass partitioner= to the constructor"),
    "enable.gapless.guarantee": (("false", "0"), "transactions give that guarantee"),
    "enable.auto.offset.store": (
        ("true", "1"),
        "set enable.auto.commit to false and commit what is processed",
    ),
    "enable.partition.eof": (("false", "0"), "compare position() with end_offsets()"),
    "topic.blacklist": ((), "subscribe with a pattern that excludes them"),
    # Security that must not be left out silently.
    **dict.fromkeys(
        names(
            """
            ssl.cipher.suites ssl.curves.list ssl.sigalgs.list ssl.crl.location
            ssl.engine.factory.class ssl.engine.location ssl.keymanager.algorithm
            ssl.trustmanager.algorithm ssl.provider ssl.providers
            ssl.secure.random.implementation ssl.ca.certificate.stores
            """
        ),
        _TLS_BY_HAND,
    ),
    **dict.fromkeys(
        names(
            """
            sasl.kerberos.service.name sasl.kerberos.principal sasl.kerberos.keytab
            sasl.kerberos.kinit.cmd sasl.oauthbearer.config sasl.login.class
            sasl.login.callback.handler.class sasl.client.callback.handler.class
            """
        ),
        _SASL_BY_HAND,
    ),
}
"""Property -> the values (in lower case) that are accepted anyway, and what to do instead."""

_ALL_KNOWN: Final = (
    _CONNECTION.keys()
    | _PRODUCER.keys()
    | _CONSUMER.keys()
    | _SHARE_CONSUMER.keys()
    | WITHOUT_EFFECT
)
