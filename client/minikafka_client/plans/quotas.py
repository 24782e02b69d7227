"""Plans for client quotas: describe, alter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minikafka.protocol.messages import alter_client_quotas as alter_api
from minikafka.protocol.messages import describe_client_quotas as describe_api
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import KafkaError
from minikafka_client.plans.plan import ANY_BROKER, Plan, call
from minikafka_client.plans.rounds import in_rounds, outcome_of
from minikafka_client.types import DEFAULT_ENTITY, QuotaEntity

_EXACT = 0
_DEFAULT = 1
_FIELDS = {"user": "user", "client-id": "client_id", "ip": "ip"}
_ANYBODY = QuotaEntity()


def describe_client_quotas(
    cluster: Cluster, matching: QuotaEntity = _ANYBODY, *, strict: bool = False
) -> Plan[dict[QuotaEntity, dict[str, float]]]:
    """Read the quotas of all entities that have the parts of ``matching``, or just them.

    ``QuotaEntity(user="alice")`` finds the quotas of alice and those of alice with any client id;
    with ``strict`` only the first ones.

    Raises:
        BrokerError: the broker refused, for instance an entity of a user and an address.
    """
    del cluster

    def attempt(
        _keys: Sequence[None],
    ) -> Plan[Mapping[None, dict[QuotaEntity, dict[str, float]] | KafkaError]]:
        request = describe_api.Request(
            components=[
                describe_api.ComponentData(
                    entity_type=kind,
                    match_type=_DEFAULT if name is None else _EXACT,
                    match=name,
                )
                for kind, name in _parts(matching)
            ],
            strict=strict,
        )
        answer = yield from call(ANY_BROKER, request, describe_api.Response)
        found = {
            _entity({part.entity_type: part.entity_name for part in entry.entity}): {
                value.key: value.value for value in entry.values
            }
            for entry in answer.entries or ()
        }
        return {None: outcome_of(found, answer.error_code, "client quotas", answer.error_message)}

    described = yield from in_rounds([None], attempt)
    return described[None]


def alter_client_quotas(
    cluster: Cluster,
    changes: Mapping[QuotaEntity, Mapping[str, float | None]],
    *,
    validate_only: bool = False,
) -> Plan[None]:
    """Set quotas of entities by their keys (``producer_byte_rate``, ...); None removes one.

    Raises:
        BrokerError: the only entity was refused (INVALID_REQUEST, ...).
        SomeFailedError: some of several entities were refused.
    """
    del cluster

    def attempt(wanted: Sequence[QuotaEntity]) -> Plan[Mapping[QuotaEntity, KafkaError | None]]:
        request = alter_api.Request(
            entries=[
                alter_api.EntryDataRequest(
                    entity=[
                        alter_api.EntityDataRequest(entity_type=kind, entity_name=name)
                        for kind, name in _parts(entity)
                    ],
                    ops=[
                        alter_api.OpData(
                            key=key, value=0.0 if value is None else value, remove=value is None
                        )
                        for key, value in changes[entity].items()
                    ],
                )
                for entity in wanted
            ],
            validate_only=validate_only,
        )
        answer = yield from call(ANY_BROKER, request, alter_api.Response)
        outcome: dict[QuotaEntity, KafkaError | None] = {}
        for entry in answer.entries:
            entity = _entity({part.entity_type: part.entity_name for part in entry.entity})
            outcome[entity] = outcome_of(
                None, entry.error_code, f"quotas of {entity}", entry.error_message
            )
        return outcome

    yield from in_rounds(changes, attempt)


def _parts(entity: QuotaEntity) -> list[tuple[str, str | None]]:
    """The parts that an entity has, as requests name them: without a name the default."""
    given = ((kind, getattr(entity, field)) for kind, field in _FIELDS.items())
    return [(kind, name or None) for kind, name in given if name is not None]


def _entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    named = {
        _FIELDS[kind]: DEFAULT_ENTITY if name is None else name
        for kind, name in parts.items()
        if kind in _FIELDS
    }
    return QuotaEntity(**named)
