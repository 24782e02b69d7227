"""Requests with as many elements as fit into a frame, of every API and in every array.

A limit for each entry is no limit for a turn: what a client can repeat in one request, it will. So
for every array that a request has, at any depth, there is one request in which that array fills the
frame, with elements that all differ and with elements that are all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from minikafka.broker.handlers import API_TABLE
from minikafka.protocol import schema
from minikafka.protocol.api import ApiKey, request_class
from minikafka.protocol.fields import Field, Struct, struct_fields
from minikafka.protocol.frames import encode_request
from minikafka.protocol.schema import Request

TOPIC = "known"
"""A topic that exists, with `PARTITIONS` partitions."""
PARTITIONS = 8
COUNT_MAX = schema.Request.ITEMS_MAX - 10
"""A request with more array items, the outer ones included, is refused when it is decoded."""
_SAMPLE = 64

# What makes a request go as far as possible; every other field has its kind's plain value.
_VALUES: dict[str, Any] = {
    "acks": 1,
    "current_leader_epoch": -1,
    "forgotten_topics_data": [],
    "include_synonyms": True,
    "include_topic_authorized_operations": True,
    "max_bytes": 1 << 20,
    "max_lifetime_ms": -1,
    "member_id": "",
    "num_partitions": 1,
    "partition_max_bytes": 1 << 20,
    "producer_epoch": 0,
    "protocol_type": "consumer",
    "rebalance_timeout_ms": 1000,
    "replica_id": -1,
    "replication_factor": 1,
    "resource_type": 2,
    "response_partition_limit": 1 << 30,
    "session_epoch": -1,
    "session_timeout_ms": 10_000,
    "timeout_ms": 1000,
    "timestamp": -1,
    "transaction_timeout_ms": 60_000,
    "types": "classic",
    "validate_only": True,
}
_NULL = {"group_instance_id", "transactional_id", "rack", "committed_metadata", "cursor", "reason"}


@dataclass(frozen=True)
class Attack:
    """A request whose array ``path`` is filled.

    Attributes:
        api_key: of the request.
        version: of the request.
        path: names of the fields that lead to the array.
        is_varied: no two elements are the same.
    """

    api_key: ApiKey
    version: int
    path: tuple[str, ...]
    is_varied: bool

    def __str__(self) -> str:
        kind = "different" if self.is_varied else "equal"
        return f"{self.api_key.title} v{self.version} with {kind} {'.'.join(self.path)}"

    def frame(
        self, size_bytes: int, topic_id: bytes, *, count_max: int = COUNT_MAX, **values: Any
    ) -> bytes:
        """The framed request, of roughly this size; ``values`` are of fields, by their names."""
        maker = _Maker(self, topic_id, values)
        empty, sample = len(maker.frame(0)), len(maker.frame(_SAMPLE))
        each = max(1.0, (sample - empty) / _SAMPLE) + 2  # later numbers are longer
        return maker.frame(max(1, min(count_max, int((size_bytes - empty) / each))))


def attacks(api_key: ApiKey) -> Iterator[Attack]:
    """Every array of the last version of an API, and of the first one if it has others."""
    handler = API_TABLE[api_key]
    seen: set[tuple[str, ...]] = set()
    for version in (handler.last_version, handler.first_version):
        for path in _arrays(request_class(api_key), version):
            if path not in seen:
                seen.add(path)
                yield Attack(api_key, version, path, is_varied=True)
                yield Attack(api_key, version, path, is_varied=False)


def _arrays(struct: type[Struct], version: int) -> Iterator[tuple[str, ...]]:
    for field in struct_fields(struct, version):
        inner = field.struct if field.item is None else field.item.struct
        if field.kind == "array":
            yield (field.name,)
        if inner is not None:
            for path in _arrays(inner, version):
                yield (field.name, *path)


class _Maker:
    def __init__(self, attack: Attack, topic_id: bytes, values: dict[str, Any]) -> None:
        self._attack = attack
        self._topic_id = topic_id
        self._values = {**_VALUES, **values}

    def frame(self, count: int) -> bytes:
        attack = self._attack
        message = self._struct(request_class(attack.api_key), attack.path, count, 0)
        assert isinstance(message, Request)
        return b"".join(encode_request(message, attack.version, 7, "attacker"))

    def _struct(self, cls: type[Struct], path: tuple[str, ...], count: int, number: int) -> Struct:
        version = self._attack.version
        values: dict[str, Any] = {}
        for field in struct_fields(cls, version):
            rest = path[1:] if path and path[0] == field.name else None
            if rest is None and version in field.tagged:
                continue
            values[field.name] = self._value(field, rest, count, number)
        return cls(**values)

    def _value(self, field: Field, rest: tuple[str, ...] | None, count: int, number: int) -> Any:
        if field.kind == "array":
            assert field.item is not None
            if rest is None and field.name in self._values:
                return self._values[field.name]
            many = 1 if rest else 0 if rest is None else count
            if rest == () and self._attack.is_varied:
                return [self._value(field.item, None, count, one) for one in range(many)]
            return [self._value(field.item, rest or None, count, 0)] * many if many else []
        if field.kind == "struct":
            assert field.struct is not None
            return self._struct(field.struct, rest or (), count, number)
        if field.name in self._values:
            return self._values[field.name]
        return self._plain(field, number)

    def _plain(self, field: Field, number: int) -> Any:
        if field.name in _NULL and self._attack.version in field.nullable:
            return None
        match field.kind:
            case "boolean":
                return False
            case "string":
                return f"x{number}" if number else TOPIC
            case "uuid":
                return number.to_bytes(16, "big") if number else self._topic_id
            case "bytes" | "records":
                return b""
            case "float64":
                return 0.0
            case "int8":
                return number % 3
            case "int16" | "uint16":
                return number % 30_000
            case _:
                return number
