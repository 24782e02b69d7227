"""AlterClientQuotas 0-1: set or remove quotas of users, clients and addresses (KIP-546).

Each entity takes all of its changes or none, and a request may have 10,000 of them.
``validate_only`` changes nothing. Unlike in Kafka an ``ip`` is an address; names of hosts are
refused, because every broker might resolve them to others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...metadata.client_quotas import Alteration, alter_quotas
from ...metadata.decision import Decision, Refusal
from ...metadata.records import QuotaEntityPart
from ...protocol.errors import ErrorCode
from ...protocol.messages import alter_client_quotas
from ..quorum.change_error import ChangeError
from ..system.pace import Pace
from .config_resources import RESOURCES_PER_REQUEST_MAX as _ENTITIES_MAX
from .config_resources import too_many

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_Results = list[tuple[Sequence[QuotaEntityPart], Refusal | None]]


async def handle(
    broker: Broker, context: RequestContext, request: alter_client_quotas.Request
) -> alter_client_quotas.Response:
    del context
    pace = Pace(broker.clock.monotonic)
    # Those that are decided about take a turn; the others are answered as they came.
    decided, others = request.entries[:_ENTITIES_MAX], request.entries[_ENTITIES_MAX:]
    alterations = [await _alteration(entry, pace) async for entry in pace.each(decided)]

    def decide() -> Decision[_Results]:
        decision = alter_quotas(broker.image.client_quotas, alterations)
        return Decision([], decision.result) if request.validate_only else decision

    results: _Results
    try:
        results = await broker.controller.change(decide)
    except ChangeError as error:
        failed = Refusal(ErrorCode(error.error_code), str(error))
        results = [(alteration.entity, failed) for alteration in alterations]
    refused = too_many()
    results += [(await _entity(entry, pace), refused) async for entry in pace.each(others)]
    return alter_client_quotas.Response(
        entries=[
            alter_client_quotas.EntryDataResponse(
                error_code=ErrorCode.NONE if refusal is None else refusal.error_code,
                error_message=None if refusal is None else refusal.message,
                entity=[
                    alter_client_quotas.EntityDataResponse(entity_type=kind, entity_name=name)
                    async for kind, name in pace.each(entity)
                ],
            )
            async for entity, refusal in pace.each(results)
        ]
    )


async def _alteration(entry: alter_client_quotas.EntryDataRequest, pace: Pace) -> Alteration:
    return Alteration(
        await _entity(entry, pace),
        [
            (change.key, None if change.remove else change.value)
            async for change in pace.each(entry.ops)
        ],
    )


async def _entity(
    entry: alter_client_quotas.EntryDataRequest, pace: Pace
) -> Sequence[QuotaEntityPart]:
    return [
        QuotaEntityPart(part.entity_type, part.entity_name)
        async for part in pace.each(entry.entity)
    ]
