"""The handler table: every API this broker serves, one line each.

A row names the API, its module in this package, the versions served, whether it is answered
without waiting (so that answers to pipelined requests may share a system call), and whether the
active controller answers it: then other nodes forward it as it is (KIP-590). ApiVersions is derived
from this table, and a module is imported when its API is first asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...protocol.api import ApiKey, request_class
from ...protocol.schema import Request, Response

if TYPE_CHECKING:
    from ..answers import LaterAnswer
    from ..broker import Broker
    from ..connection import RequestContext

HandlerFunction = Callable[
    ["Broker", "RequestContext", Any], Awaitable["Response | LaterAnswer | None"]
]


class Handler:
    """One row of the table; its function and message class arrive at the first use."""

    def __init__(
        self,
        api_key: ApiKey,
        first_version: int,
        last_version: int,
        *,
        answers_at_once: bool = False,
        is_for_controller: bool = False,
        forwards_itself: bool = False,
        advertised_first: int | None = None,
    ) -> None:
        self.api_key = api_key
        self.first_version = first_version
        self.last_version = last_version
        self.answers_at_once = answers_at_once
        self.is_for_controller = is_for_controller
        self.is_forwarded = is_for_controller and not forwards_itself
        self.advertised_first = first_version if advertised_first is None else advertised_first

    @cached_property
    def request_class(self) -> type[Request]:
        """The message class of the request."""
        return request_class(self.api_key)

    @cached_property
    def first_flexible_version(self) -> int:
        """The first version with tagged fields, also in its header; beyond all when none has."""
        flexible = self.request_class.FLEXIBLE
        return flexible.first if flexible.first <= flexible.last else 2**15

    @cached_property
    def handle(self) -> HandlerFunction:
        """To be awaited with (broker, context, request); it returns None to send nothing."""
        module = import_module(f"{__name__}.{self.api_key.name.lower()}")
        function: HandlerFunction = module.handle
        return function


API_TABLE: dict[int, Handler] = {
    handler.api_key: handler
    for handler in (
        # librdkafka compresses only for brokers that claim Produce 0, so Kafka 4 claims it
        # while serving from 3 (KAFKA-18659); so do we.
        Handler(ApiKey.PRODUCE, 3, 13, answers_at_once=True, advertised_first=0),
        Handler(ApiKey.FETCH, 4, 18),
        Handler(ApiKey.LIST_OFFSETS, 1, 11),
        Handler(ApiKey.METADATA, 0, 13),
        Handler(ApiKey.OFFSET_COMMIT, 2, 10),
        Handler(ApiKey.OFFSET_FETCH, 1, 10),
        Handler(ApiKey.FIND_COORDINATOR, 0, 6),
        Handler(ApiKey.JOIN_GROUP, 0, 9),
        Handler(ApiKey.HEARTBEAT, 0, 4),
        Handler(ApiKey.LEAVE_GROUP, 0, 5),
        Handler(ApiKey.SYNC_GROUP, 0, 5),
        Handler(ApiKey.DESCRIBE_GROUPS, 0, 6),
        Handler(ApiKey.LIST_GROUPS, 0, 5),
        Handler(ApiKey.API_VERSIONS, 0, 4),
        Handler(ApiKey.CREATE_TOPICS, 2, 7, is_for_controller=True),
        Handler(ApiKey.DELETE_TOPICS, 1, 6, is_for_controller=True),
        Handler(ApiKey.DELETE_RECORDS, 0, 2),
        Handler(ApiKey.INIT_PRODUCER_ID, 0, 6),
        Handler(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4),
        Handler(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5),
        Handler(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4),
        Handler(ApiKey.END_TXN, 0, 5),
        Handler(ApiKey.WRITE_TXN_MARKERS, 1, 2),
        Handler(ApiKey.TXN_OFFSET_COMMIT, 0, 5),
        Handler(ApiKey.DESCRIBE_CONFIGS, 1, 4),
        Handler(ApiKey.ALTER_CONFIGS, 0, 2, is_for_controller=True),
        Handler(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2),
        Handler(ApiKey.DESCRIBE_LOG_DIRS, 1, 4),
        Handler(ApiKey.CREATE_PARTITIONS, 0, 3, is_for_controller=True),
        Handler(ApiKey.DELETE_GROUPS, 0, 2),
        Handler(ApiKey.ELECT_LEADERS, 0, 2, is_for_controller=True),
        # Log levels are a broker's own, so the handler itself forwards the rest.
        Handler(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, is_for_controller=True, forwards_itself=True
        ),
        Handler(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, is_for_controller=True),
        Handler(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, is_for_controller=True),
        Handler(ApiKey.OFFSET_DELETE, 0, 0),
        Handler(ApiKey.DESCRIBE_QUORUM, 0, 2, is_for_controller=True),
        Handler(ApiKey.UPDATE_FEATURES, 0, 2),
        Handler(ApiKey.DESCRIBE_CLUSTER, 0, 2),
        Handler(ApiKey.DESCRIBE_PRODUCERS, 0, 0),
        Handler(ApiKey.UNREGISTER_BROKER, 0, 0, is_for_controller=True),
        Handler(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0),
        Handler(ApiKey.LIST_TRANSACTIONS, 0, 2),
        Handler(ApiKey.LIST_CONFIG_RESOURCES, 0, 1),
        Handler(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0),
    )
}
