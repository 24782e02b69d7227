"""Client quotas: what may be set, what is found, and which one is whose."""

from __future__ import annotations

import pytest

from minikafka.metadata.client_quotas import (
    Alteration,
    FilterPart,
    Limit,
    QuotaLimits,
    Quotas,
    alter_quotas,
    matching_quotas,
)
from minikafka.metadata.decision import Refusal
from minikafka.metadata.image import MetadataImage
from minikafka.metadata.records import ClientQuotaRecord, QuotaEntityPart
from minikafka.protocol.errors import ErrorCode

PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"


def entity(**names: str | None) -> tuple[QuotaEntityPart, ...]:
    """An entity of keywords; ``client_id`` is Kafka's client-id."""
    return tuple(
        sorted(QuotaEntityPart(kind.replace("_", "-"), name) for kind, name in names.items())
    )


ALICE, BOB = entity(user="alice"), entity(user="bob")


def altered(
    image: MetadataImage, *alterations: tuple[tuple[QuotaEntityPart, ...], dict[str, float | None]]
) -> list[str | None]:
    """Change an image; returns why entities were refused."""
    decision = alter_quotas(
        image.client_quotas,
        [Alteration(parts, list(changes.items())) for parts, changes in alterations],
    )
    for record in decision.records:
        image.replay(record)
    for _, refusal in decision.result:
        assert refusal is None or refusal.error_code is ErrorCode.INVALID_REQUEST
    return [None if refusal is None else refusal.message for _, refusal in decision.result]


def test_quotas_are_set_changed_and_removed() -> None:
    image = MetadataImage()
    assert altered(image, (ALICE, {PRODUCER: 1.0, CONSUMER: 2.0})) == [None]
    assert altered(image, (ALICE, {PRODUCER: 3.0}), (BOB, {CONSUMER: 9.0})) == [None, None]
    assert image.client_quotas == {ALICE: {PRODUCER: 3.0, CONSUMER: 2.0}, BOB: {CONSUMER: 9.0}}
    altered(image, (ALICE, {PRODUCER: None, CONSUMER: None, "request_percentage": None}))
    assert image.client_quotas == {BOB: {CONSUMER: 9.0}}


def test_what_changes_nothing_is_not_written() -> None:
    quotas: Quotas = {ALICE: {PRODUCER: 1.0}}
    changes = [(PRODUCER, 1.0), (CONSUMER, None)]
    assert alter_quotas(quotas, [Alteration(ALICE, changes)]).records == []


def test_the_parts_of_an_entity_have_no_order() -> None:
    image = MetadataImage()
    parts = entity(user="a", client_id="c")
    altered(image, (parts, {PRODUCER: 1.0}), ((parts[1], parts[0]), {PRODUCER: 2.0}))
    assert image.client_quotas == {parts: {PRODUCER: 1.0}}


REFUSED: dict[str, tuple[tuple[QuotaEntityPart, ...], dict[str, float | None], str]] = {
    "no entity": ((), {PRODUCER: 1.0}, "none was given"),
    "unknown type": (entity(topic="t"), {PRODUCER: 1.0}, "'topic' can have no quota"),
    "empty name": (entity(user=""), {PRODUCER: 1.0}, "name of the user is empty"),
    "ip and user": (entity(ip="::1", user="a"), {PRODUCER: 1.0}, "cannot be for a user"),
    "host name": (entity(ip="host"), {"connection_creation_rate": 1.0}, "not an IP address"),
    "key of another": (entity(ip="::1"), {PRODUCER: 1.0}, "use connection_creation_rate"),
    "unknown key": (ALICE, {"speed": 1.0}, "Unknown quota 'speed'"),
    "zero": (ALICE, {PRODUCER: 0.0}, "greater than 0"),
    "not a number": (ALICE, {PRODUCER: float("nan")}, "greater than 0"),
    "too large": (ALICE, {PRODUCER: 1e19}, "too large"),
    "fraction": (ALICE, {PRODUCER: 1.5}, "whole number"),
    "too many connections": (
        entity(ip=None), {"connection_creation_rate": 2.0**31}, "too large"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("parts", "changes", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_an_invalid_alteration_is_refused_as_a_whole(
    parts: tuple[QuotaEntityPart, ...], changes: dict[str, float | None], reason: str
) -> None:
    image = MetadataImage()
    valid = {"request_percentage": 0.5, **changes} if parts == ALICE else changes
    (message,) = altered(image, (parts, valid))
    assert message is not None
    assert reason in message
    assert image.client_quotas == {}


def test_a_key_or_an_entity_that_comes_twice_is_refused() -> None:
    decision = alter_quotas({}, [Alteration(ALICE, [(PRODUCER, 1.0), (PRODUCER, 2.0)])])
    assert decision.records == []
    decision = alter_quotas(
        {}, [Alteration(ALICE, [(PRODUCER, 1.0)]), Alteration(ALICE, [(PRODUCER, 2.0)])]
    )
    assert decision.records == [ClientQuotaRecord(ALICE, PRODUCER, 1.0)]
    ((_, refusal),) = decision.result
    assert refusal is not None
    assert "more than once" in refusal.message


@pytest.mark.parametrize(
    ("parts", "key"),
    [
        (entity(ip="10.0.0.1"), "connection_creation_rate"),
        (entity(ip=None), "connection_creation_rate"),
        (entity(user=None, client_id="c"), "controller_mutation_rate"),
        (entity(client_id=None), CONSUMER),
    ],
)
def test_every_kind_of_entity_can_have_its_quotas(
    parts: tuple[QuotaEntityPart, ...], key: str
) -> None:
    image = MetadataImage()
    assert altered(image, (parts, {key: 7.0})) == [None]
    assert image.client_quotas == {parts: {key: 7.0}}


ALL: Quotas = {
    one: {PRODUCER: float(number)}
    for number, one in enumerate(
        [
            ALICE,
            entity(user=None),
            entity(user="alice", client_id="c"),
            entity(user="alice", client_id=None),
            entity(client_id="c"),
        ]
    )
}
EXACT, DEFAULT, ANY = 0, 1, 2


@pytest.mark.parametrize(
    ("parts", "strict", "numbers"),
    [
        ([], False, [0, 1, 2, 3, 4]),
        ([], True, []),
        ([FilterPart("user", EXACT, "alice")], False, [0, 2, 3]),
        ([FilterPart("user", EXACT, "alice")], True, [0]),
        ([FilterPart("user", DEFAULT, None)], True, [1]),
        ([FilterPart("user", ANY, None)], True, [0, 1]),
        ([FilterPart("client-id", ANY, None)], False, [2, 3, 4]),
        (
            [FilterPart("client-id", DEFAULT, None), FilterPart("user", EXACT, "alice")],
            True,
            [3],
        ),
        ([FilterPart("ip", ANY, None)], False, []),
    ],
)
def test_a_filter_finds_the_entities_that_have_all_its_parts(
    parts: list[FilterPart], strict: bool, numbers: list[int]
) -> None:
    found = matching_quotas(ALL, parts, strict=strict)
    assert not isinstance(found, Refusal)
    assert [limits[PRODUCER] for _, limits in found] == numbers


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([FilterPart("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([FilterPart("topic", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([FilterPart("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([FilterPart("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([FilterPart("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([FilterPart("user", ANY, "a")], ErrorCode.INVALID_REQUEST),
        ([FilterPart("user", ANY, None)] * 2, ErrorCode.INVALID_REQUEST),
        ([FilterPart("ip", ANY, None), FilterPart("user", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(parts: list[FilterPart], code: ErrorCode) -> None:
    found = matching_quotas(ALL, parts, strict=False)
    assert isinstance(found, Refusal)
    assert found.error_code is code


PRECEDENCE = [
    (entity(user="u", client_id="c"), ("u", "c")),
    (entity(user="u", client_id=None), ("u", "c")),
    (entity(user="u"), ("u", "")),
    (entity(user=None, client_id="c"), ("u", "c")),
    (entity(user=None, client_id=None), ("u", "c")),
    (entity(user=None), ("u", "")),
    (entity(client_id="c"), ("", "c")),
    (entity(client_id=None), ("", "c")),
]


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_the_most_specific_quota_counts(first: int) -> None:
    """In Kafka's order; the less specific ones are there as well."""
    quotas = {one: {PRODUCER: float(place)} for place, (one, _) in enumerate(PRECEDENCE)}
    limits = QuotaLimits(dict(list(quotas.items())[first:]))
    assert limits.of_client(PRODUCER, "u", "c") == Limit(float(first), *PRECEDENCE[first][1])


def test_who_has_no_quota_is_not_limited() -> None:
    limits = QuotaLimits({ALICE: {PRODUCER: 1.0}})
    assert limits.of_client(PRODUCER, "bob", "c") is None
    assert limits.of_client(CONSUMER, "alice", "c") is None
    assert limits.of_address("127.0.0.1") is None


def test_a_client_without_an_id_has_no_quota_of_a_client_id() -> None:
    quotas: Quotas = {entity(client_id=None): {PRODUCER: 1.0}}
    assert QuotaLimits(quotas).of_client(PRODUCER, "u", "") is None
    quotas[entity(user=None)] = {PRODUCER: 2.0}
    assert QuotaLimits(quotas).of_client(PRODUCER, "u", "") == Limit(2.0, "u", "")


def test_an_address_has_its_own_quota_or_the_default() -> None:
    key = "connection_creation_rate"
    quotas: Quotas = {entity(ip="0:0::1"): {key: 3.0}}
    assert QuotaLimits(quotas).of_address("::1") == 3.0
    assert QuotaLimits(quotas).of_address("127.0.0.1") is None
    quotas[entity(ip=None)] = {key: 9.0}
    assert QuotaLimits(quotas).of_address("127.0.0.1") == 9.0
