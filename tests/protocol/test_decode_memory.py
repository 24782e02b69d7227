"""How much memory a received message can take, as bounded by `Message.ITEMS_MAX`."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from minikafka.protocol.exceptions import MalformedMessageError
from minikafka.protocol.fields import Field, Struct, struct_fields
from minikafka.protocol.messages import alter_client_quotas, find_coordinator, metadata, produce
from minikafka.protocol.schema import Message, Request
from tests.protocol.instances import Case, every_message

REQUEST_ITEM_COST_BYTES = 300
RESPONSE_ITEM_COST_BYTES = 750
ITEMS = 40
ITEMS_AT_ONCE = 10_000
"""More say nothing new, and take long where arrays are nested deeply."""
_ATTEMPTS = 5
SMALL_VALUES: dict[str, Any] = {
    "boolean": True,
    "int8": 100,
    "float64": 1.5,
    "uuid": bytes(range(16)),
}


@pytest.mark.parametrize("message", list(every_message()), ids=lambda cls: cls.__name__)
def test_an_item_costs_no_more_than_the_limit_assumes(message: type[Message]) -> None:
    """The items are made so that they cost the most: short strings, short or empty lists."""
    case = Case(message, message.VERSIONS.last)
    limit = REQUEST_ITEM_COST_BYTES if issubclass(message, Request) else RESPONSE_ITEM_COST_BYTES
    for text in ("", "ab"):
        for nested_items in (0, 1, 4):
            costly = _costly(message, case.version, text, nested_items, 1)
            if _count(costly) > ITEMS_AT_ONCE:
                costly = _costly(message, case.version, text, 2, 1)
                nested_items = 2
            outer_items = max(1, min(ITEMS, ITEMS_AT_ONCE // (_count(costly) or 1)))
            costly = _costly(message, case.version, text, nested_items, outer_items)
            items = _count(costly)
            wire = memoryview(costly.encode_to_bytes(case.version))
            assert message.decode(case.version, wire) == costly
            enough = limit * items + 2_000
            taken = _least_memory(lambda: message.decode(case.version, wire), enough)  # noqa: B023 - called immediately
            assert taken <= enough


def _costly(cls: type[Struct], version: int, text: str, nested_items: int, outer_items: int) -> Any:
    def value(field: Field) -> Any:
        match field.kind:
            case "string":
                return text
            case "bytes" | "records":
                return b"r"
            case "struct":
                assert field.struct is not None
                return _costly(field.struct, version, text, nested_items, nested_items)
            case "array":
                assert field.item is not None
                return [value(field.item) for _ in range(outer_items)]
            case kind:
                return SMALL_VALUES.get(kind, 300)

    fields = [field for field in struct_fields(cls, version) if version not in field.tagged]
    return cls(**{field.name: value(field) for field in fields})


def _least_memory(work: Callable[[], object], enough: int = 0) -> int:
    """The peak memory in bytes of some work, its result included.

    Whatever earlier tests left running in this process allocates too, so this takes the minimum of
    several attempts, unless one takes little enough.
    """
    peaks: list[int] = []
    for _ in range(_ATTEMPTS):
        tracemalloc.start()
        try:
            result = work()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        del result
        if peaks[-1] <= enough:
            break
    return min(peaks)


def _count(struct: Struct) -> int:
    items = 0
    for field in struct.FIELDS:
        value = getattr(struct, field.name)
        if isinstance(value, Struct):
            items += _count(value)
        elif isinstance(value, list):
            items += len(value) + sum(_count(item) for item in value if isinstance(item, Struct))
    return items


def test_items_of_all_arrays_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce.Request, "ITEMS_MAX", 12)
    assert produce.Request.decode(9, _produce(topics=4, partitions=2)).topic_data[3].name == "t"
    with pytest.raises(MalformedMessageError, match="partition_data has more array items"):
        produce.Request.decode(9, _produce(topics=4, partitions=3))
    with pytest.raises(MalformedMessageError, match="topic_data has more array items"):
        produce.Request.decode(9, _produce(topics=13, partitions=0))


def test_a_caller_can_ask_for_fewer_items() -> None:
    wire = _produce(topics=4, partitions=2)
    assert produce.Request.decode(9, wire, items_max=12) == produce.Request.decode(9, wire)
    with pytest.raises(MalformedMessageError, match="more array items"):
        produce.Request.decode(9, wire, items_max=11)


def _produce(topics: int, partitions: int) -> bytes:
    topic = produce.TopicData(
        name="t",
        partition_data=[produce.PartitionData(index=7, records=None) for _ in range(partitions)],
    )
    message = produce.Request(acks=1, timeout_ms=1, topic_data=[topic] * topics)
    return message.encode_to_bytes(9)


def test_texts_and_integers_count_as_items(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = find_coordinator.Request(coordinator_keys=["a"] * 5).encode_to_bytes(6)
    monkeypatch.setattr(find_coordinator.Request, "ITEMS_MAX", 4)
    with pytest.raises(MalformedMessageError, match="coordinator_keys"):
        find_coordinator.Request.decode(6, wire)


def test_the_worst_kind_of_request_is_refused_before_it_fills_memory() -> None:
    """Three bytes on the wire, 150 in memory: a frame of 3 MB would take 150 MB."""
    entries = [alter_client_quotas.EntryDataRequest(entity=[], ops=[])]
    wire = alter_client_quotas.Request(entries=entries, validate_only=False).encode_to_bytes(1)
    assert wire == b"\x02\x01\x01\x00\x00\x00"
    million = b"\xc1\x84\x3d" + b"\x01\x01\x00" * 1_000_000 + b"\x00\x00"

    def decode() -> None:
        with pytest.raises(MalformedMessageError, match="entries has more array items"):
            alter_client_quotas.Request.decode(1, million)

    assert _least_memory(decode) < 10_000


@pytest.mark.parametrize(
    ("version", "count", "more"),
    [(7, b"\0\0\x4e\x20", b"\0\0\x4e\x21"), (9, b"\xa1\x9c\x01", b"\xa2\x9c\x01")],
    ids=["fixed", "compact"],
)
def test_more_items_than_the_remaining_bytes_can_hold_are_refused_before_the_first(
    version: int, count: bytes, more: bytes
) -> None:
    """The bytes that follow are 20,000 valid partitions; none of them may be read."""
    partitions = [produce.PartitionData(index=0, records=b"")] * 20_000
    topic = produce.TopicData(name="t", partition_data=partitions)
    wire = produce.Request(acks=1, timeout_ms=1, topic_data=[topic]).encode_to_bytes(version)
    produce.Request.decode(version, wire)
    assert wire.count(count) == 1
    tracemalloc.start()
    with pytest.raises(MalformedMessageError, match="partition_data announces 20001, but only"):
        produce.Request.decode(version, wire.replace(count, more))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000  # the damaged copy of the frame; the partitions would take 2 MB


def test_responses_may_be_larger_than_requests() -> None:
    assert metadata.Response.ITEMS_MAX > produce.Request.ITEMS_MAX == Request.ITEMS_MAX
