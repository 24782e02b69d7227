"""ListTransactions 0-2: the transactions that this broker coordinates (KIP-664).

Filters: states, producer ids, how long ago the transaction began (version 1, KIP-994), and a
regular expression that the whole id must match (version 2, KIP-1152). Like Kafka's it is an RE2
pattern, which is matched in linear time; backreferences and lookaround are not supported.

An ended transaction is as old as its beginning, as in Kafka. A producer that has not begun one is
never older than a duration; Kafka takes it for one that began in 1970.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import re2

from ...coordinator.transaction import TransactionState as State
from ...protocol.errors import ErrorCode
from ...protocol.messages import list_transactions
from ..system.pace import Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_PATTERN_LENGTH_MAX = 1_000
_PATTERN_SIZE_BYTES_MAX = 1024 * 1024
"""Memory of a compiled pattern; RE2 expands counted repetitions."""


async def handle(
    broker: Broker, context: RequestContext, request: list_transactions.Request
) -> list_transactions.Response:
    del context
    runtime = broker.transactions.runtime
    if runtime.is_loading:
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    pattern = request.transactional_id_pattern or ""
    try:
        if len(pattern) > _PATTERN_LENGTH_MAX:
            return _refused(ErrorCode.INVALID_REGULAR_EXPRESSION)
        matches = re2.compile(pattern, _options()).fullmatch if pattern else None
    except re2.error:
        return _refused(ErrorCode.INVALID_REGULAR_EXPRESSION)
    titles = {state.title for state in State}
    pace = Pace(broker.clock.monotonic)
    wanted_states = titles.intersection(request.state_filters)
    unknown = [one async for one in pace.each(request.state_filters) if one not in titles]
    producer_ids = {one async for one in pace.each(request.producer_id_filters)}
    now_ms = broker.clock.wall_ms()
    found = [
        list_transactions.TransactionState(
            transactional_id=entry.transactional_id,
            producer_id=entry.producer_id,
            transaction_state=entry.state.title,
        )
        async for shard in pace.each(runtime.loaded_shards())
        for entry in shard.entries()
        if (not request.state_filters or entry.state.title in wanted_states)
        and (not producer_ids or entry.producer_id in producer_ids)
        and (request.duration_filter < 0 or 0 <= entry.start_ms <= now_ms - request.duration_filter)
        and (matches is None or matches(entry.transactional_id))
    ]
    return list_transactions.Response(
        error_code=ErrorCode.NONE, unknown_state_filters=unknown, transaction_states=found
    )


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_SIZE_BYTES_MAX
    return options


def _refused(code: ErrorCode) -> list_transactions.Response:
    return list_transactions.Response(
        error_code=code, unknown_state_filters=[], transaction_states=[]
    )
