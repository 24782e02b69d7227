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
from .config_resources import RESOURCES_PER_REQUEST_MAX, too_many

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_Results = list[tuple[Sequence[QuotaEntityPart], Refusal | None]]


async def handle(
    broker: Broker, context: RequestContext, request: alter_client_quotas.Request
) -> alter_client_quotas.Response:
    del context
    pace = Pace(broker.clock.monotonic)
    alterations = [_alteration(entry) async for entry in pace.each(request.entries)]
    allowed = alterations[:RESOURCES_PER_REQUEST_MAX]  # they are decided about in one turn

    def decide() -> Decision[_Results]:
        decision = alter_quotas(broker.image.client_quotas, allowed)
        return Decision([], decision.result) if request.validate_only else decision

    results: _Results
    try:
        results = await broker.controller.change(decide)
    except ChangeError as error:
        failed = Refusal(ErrorCode(error.error_code), str(error))
        results = [(alteration.entity, failed) for alteration in allowed]
    results += [(one.entity, too_many()) for one in alterations[RESOURCES_PER_REQUEST_MAX:]]
    return alter_client_quotas.Response(
        entries=[
            alter_client_quotas.EntryDataResponse(
                error_code=ErrorCode.NONE if refusal is None else refusal.error_code,
                error_message=None if refusal is None else refusal.message,
                entity=[
                    alter_client_quotas.EntityDataResponse(entity_type=kind, entity_name=name)
                    for kind, name in entity
                ],
            )
            async for entity, refusal in pace.each(results)
        ]
    )


def _alteration(entry: alter_client_quotas.EntryDataRequest) -> Alteration:
    return Alteration(
        [QuotaEntityPart(part.entity_type, part.entity_name) for part in entry.entity],
        [(change.key, None if change.remove else change.value) for change in entry.ops],
    )
