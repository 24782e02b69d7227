"""Client quotas (KIP-546): which there are, how they change, and which one is for whom.

An *entity* is what a quota is for: a user, a client id, both together, or an address; each by its
name or, without one, as the default for those that have none of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple

from ..protocol.errors import ErrorCode
from .decision import Decision, Refusal
from .records import ClientQuotaRecord, MetadataRecord, QuotaEntityPart

__all__ = [
    "CLIENT_ID",
    "CONNECTION_CREATION_RATE",
    "CONSUMER_BYTE_RATE",
    "CONTROLLER_MUTATION_RATE",
    "IP",
    "PRODUCER_BYTE_RATE",
    "REQUEST_PERCENTAGE",
    "USER",
    "Alteration",
    "FilterPart",
    "Limit",
    "QuotaEntity",
    "QuotaLimits",
    "Quotas",
    "alter_quotas",
    "matching_quotas",
    "replay_quota",
]

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
_TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

_LONG_MAX: Final = 2.0**63
_INT_MAX: Final = 2**31 - 1
_FRACTION_MAX: Final = 1e-6
_WHOLE_NUMBERS: Final = {
    PRODUCER_BYTE_RATE: _LONG_MAX,
    CONSUMER_BYTE_RATE: _LONG_MAX,
    CONNECTION_CREATION_RATE: _INT_MAX,
}
"""Quotas that are whole numbers, and the largest of each."""
_CLIENT_KEYS: Final = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
)
_ADDRESS_KEYS: Final = (CONNECTION_CREATION_RATE,)

_MATCH_EXACT: Final = 0
_MATCH_DEFAULT: Final = 1
_MATCH_ANY: Final = 2

QuotaEntity = tuple[QuotaEntityPart, ...]
"""Its parts sorted by their types, so that equal entities are equal tuples."""
Quotas = dict[QuotaEntity, dict[str, float]]
"""The limits of each entity by their keys. Never empty for an entity; replaced, not modified."""


class Alteration(NamedTuple):
    """What a request wants to change of an entity: limits by keys, None removes one."""

    entity: Sequence[QuotaEntityPart]
    changes: Sequence[tuple[str, float | None]]


class FilterPart(NamedTuple):
    """What an entity must have to be described: Kafka's match types are 0 to 2."""

    type: str
    match_type: int
    name: str | None


# --- the image ---------------------------------------------------------------------------------


def replay_quota(quotas: Quotas, record: ClientQuotaRecord) -> None:
    """Apply a record."""
    limits = dict(quotas.get(record.entity, {}))
    if record.value is None:
        limits.pop(record.key, None)
    else:
        limits[record.key] = record.value
    if limits:
        quotas[record.entity] = limits
    else:
        quotas.pop(record.entity, None)


# --- decisions ---------------------------------------------------------------------------------


def alter_quotas(
    quotas: Quotas, alterations: Iterable[Alteration]
) -> Decision[list[tuple[Sequence[QuotaEntityPart], Refusal | None]]]:
    """Change the quotas of entities, each on its own (AlterClientQuotas).

    Returns:
        For each entity a refusal, or None; an entity that was given more than once keeps what the
        first alteration made of it, and is refused.
    """
    records: list[MetadataRecord] = []
    results: dict[QuotaEntity, tuple[Sequence[QuotaEntityPart], Refusal | None]] = {}
    for asked, changes in alterations:
        entity = _canonical(asked)
        refusal: Refusal | None
        if entity in results:
            refusal = _refusal("The entity is given more than once; only the first one counts.")
        else:
            refusal = _entity_refusal(entity) or _changes_refusal(entity, changes)
            if refusal is None:
                present = quotas.get(entity, {})
                records += [
                    ClientQuotaRecord(entity, key, value)
                    for key, value in changes
                    if present.get(key) != value
                ]
        results[entity] = (asked, refusal)
    return Decision(records, list(results.values()))


def _canonical(parts: Iterable[QuotaEntityPart]) -> QuotaEntity:
    """Like Kafka, the last of several parts of one type counts."""
    return tuple(sorted({part.type: part for part in parts}.values()))


def _refusal(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)


def _entity_refusal(entity: QuotaEntity) -> Refusal | None:
    types = [part.type for part in entity]
    if not types:
        return _refusal("A quota is for a user, a client-id or an ip; none was given.")
    for kind, name in entity:
        if kind not in _TYPES:
            return _refusal(f"{kind!r} can have no quota; {', '.join(_TYPES)} can.")
        if name == "":
            return _refusal(f"The name of the {kind} is empty; the default has no name at all.")
    if IP in types and len(types) > 1:
        return _refusal("A quota of an ip cannot be for a user or a client-id, too.")
    if types == [IP] and not _is_address(entity[0].name):
        return _refusal(f"{entity[0].name!r} is not an IP address.")
    return None


def _is_address(name: str | None) -> bool:
    if name is None:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _changes_refusal(
    entity: QuotaEntity, changes: Sequence[tuple[str, float | None]]
) -> Refusal | None:
    allowed = _ADDRESS_KEYS if entity[0].type == IP else _CLIENT_KEYS
    seen: set[str] = set()
    for key, value in changes:
        if key in seen:
            return _refusal(f"{key} is given more than once.")
        seen.add(key)
        if value is None:
            continue
        if key not in allowed:
            return _refusal(f"Unknown quota {key!r}; use {', '.join(allowed)}.")
        problem = _value_problem(key, value)
        if problem is not None:
            return _refusal(f"{key}={value:g} {problem}.")
    return None


def _value_problem(key: str, value: float) -> str | None:
    if not value > 0:
        return "must be greater than 0"
    most = _WHOLE_NUMBERS.get(key)
    if most is None:
        return None
    if value > most:
        return f"is too large; at most {most:g} is allowed"
    if math.fmod(value, 1.0) > _FRACTION_MAX:
        return "must be a whole number"
    return None


# --- descriptions ------------------------------------------------------------------------------


def matching_quotas(
    quotas: Quotas, parts: Sequence[FilterPart], *, strict: bool
) -> list[tuple[QuotaEntity, Mapping[str, float]]] | Refusal:
    """The quotas of the entities that have all that is asked for (DescribeClientQuotas).

    Args:
        quotas: all there are.
        parts: what an entity must have.
        strict: it must have nothing besides.
    """
    refusal = _filter_refusal(parts)
    if refusal is not None:
        return refusal
    return [
        (entity, limits)
        for entity, limits in quotas.items()
        if (len(entity) == len(parts) or not strict)
        and all(_has_part(entity, part) for part in parts)
    ]


def _has_part(entity: QuotaEntity, wanted: FilterPart) -> bool:
    if wanted.match_type == _MATCH_ANY:
        return any(kind == wanted.type for kind, _ in entity)
    return QuotaEntityPart(wanted.type, wanted.name) in entity


def _filter_refusal(parts: Sequence[FilterPart]) -> Refusal | None:
    seen: set[str] = set()
    for kind, match_type, name in parts:
        if not kind:
            return _refusal("A part of the filter has no entity type.")
        if kind in seen:
            return _refusal(f"The filter has the entity type {kind} more than once.")
        seen.add(kind)
        if kind not in _TYPES:
            return Refusal(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind!r}.")
        if match_type not in (_MATCH_EXACT, _MATCH_DEFAULT, _MATCH_ANY):
            return _refusal(f"Unknown match type {match_type}.")
        if match_type == _MATCH_EXACT and name is None:
            return _refusal(f"The filter wants one {kind}, but gives no name.")
        if match_type != _MATCH_EXACT and name is not None:
            return _refusal(f"The filter gives a name of a {kind}, but does not want that one.")
    if IP in seen and len(seen) > 1:
        return _refusal("A filter for an ip cannot be for a user or a client-id, too.")
    return None


# --- whose quota is whose ----------------------------------------------------------------------


class Limit(NamedTuple):
    """A limit, and who shares it: all clients with this user and this client id ("" for any)."""

    value: float
    user: str
    client_id: str


_NO_PART: Final = QuotaEntityPart("", None)
"""Stands for "whatever it is" in look-ups; no entity has it."""
_Lookup = tuple[QuotaEntityPart, QuotaEntityPart]


class QuotaLimits:
    """All limits, arranged for looking up the one that a client has.

    Args:
        quotas: what the image has.
    """

    def __init__(self, quotas: Quotas) -> None:
        self._limits: dict[str, dict[_Lookup, float]] = {}
        self._addresses: dict[str | None, float] = {}
        for entity, limits in quotas.items():
            parts = {part.type: part for part in entity}
            if IP in parts:
                name = parts[IP].name
                address = None if name is None else str(ip_address(name))
                self._addresses[address] = limits[CONNECTION_CREATION_RATE]
                continue
            place = (parts.get(USER, _NO_PART), parts.get(CLIENT_ID, _NO_PART))
            for key, limit in limits.items():
                self._limits.setdefault(key, {})[place] = limit

    def of_client(self, key: str, user: str, client_id: str) -> Limit | None:
        """The most specific limit for a client, in Kafka's order; None if there is none.

        A quota of a user and a client id comes before one of the user, that before one of the
        client id; of each the one with a name comes before the default. A client without an id has
        no quota of a client id.
        """
        limits = self._limits.get(key)
        if limits is None:
            return None
        a_user, users = QuotaEntityPart(USER, user), QuotaEntityPart(USER, None)
        client, clients = QuotaEntityPart(CLIENT_ID, client_id), QuotaEntityPart(CLIENT_ID, None)
        for place in (
            (a_user, client),
            (a_user, clients),
            (a_user, _NO_PART),
            (users, client),
            (users, clients),
            (users, _NO_PART),
            (_NO_PART, client),
            (_NO_PART, clients),
        ):
            of_user, of_client = place[0] is not _NO_PART, place[1] is not _NO_PART
            limit = limits.get(place)
            if limit is not None and (client_id or not of_client):
                return Limit(limit, user if of_user else "", client_id if of_client else "")
        return None

    def of_address(self, address: str) -> float | None:
        """How many connections a second an IP address may make; None if there is no limit."""
        if not self._addresses:
            return None
        return self._addresses.get(str(ip_address(address)), self._addresses.get(None))
