"""One module for each API, and the table of all APIs that this broker serves.

A handler is an async function of the broker, the request's context and the decoded request. Its
module's docstring says which versions it serves, how it behaves and what is missing. To add an API,
declare its message in `minikafka.protocol.messages`, add a module here and a row to the table;
ApiVersions is derived from that.

A row has the API, the versions served, whether it is answered without waiting (so that answers to
pipelined requests may share a system call), whether it is for the active controller, to which other
nodes forward it unchanged (KIP-590), and whether a short request may have a long answer: then its
module counts the entries, and an answer with many is encoded in a worker thread. A module is
imported with the first request for its API.

Handlers know nothing of ACLs, but for those of fetch sessions: the rules in `access` stand before
them, and only where there is an authorizer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...protocol.api import ApiKey, request_class
from ...protocol.schema import Request, Response

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext
    from .later_answer import LaterAnswer

HandlerFunction = Callable[
    ["Broker", "RequestContext", Any], Awaitable["Response | LaterAnswer | None"]
]


class Handler:
    """One row of the table; the module and the message class are loaded on first use."""

    def __init__(
        self,
        api_key: ApiKey,
        first_version: int,
        last_version: int,
        *,
        answers_at_once: bool = False,
        is_for_controller: bool = False,
        forwards_itself: bool = False,
        counts_entries: bool = False,
        advertised_first: int | None = None,
    ) -> None:
        self.api_key = api_key
        self.first_version = first_version
        self.last_version = last_version
        self.answers_at_once = answers_at_once
        self.is_for_controller = is_for_controller
        self.is_forwarded = is_for_controller and not forwards_itself
        self.counts_entries = counts_entries
        self.advertised_first = first_version if advertised_first is None else advertised_first

    @cached_property
    def request_class(self) -> type[Request]:
        return request_class(self.api_key)

    @cached_property
    def first_flexible_version(self) -> int:
        """The first version with tagged fields in header and body; beyond all versions if none."""
        flexible = self.request_class.FLEXIBLE
        return flexible.first if flexible.first <= flexible.last else 2**15

    @cached_property
    def handle(self) -> HandlerFunction:
        """The handler function; it returns None to send no response."""
        module = import_module(f"{__name__}.{self.api_key.name.lower()}")
        function: HandlerFunction = module.handle
        return function

    @cached_property
    def guarded(self) -> HandlerFunction:
        """The handler function behind the rule of `access` that says who may do what."""
        from .access import guarded

        return guarded(self.api_key, self.handle)

    def serve(self, broker: Broker) -> HandlerFunction:
        """What answers requests on this broker, which may have an authorizer."""
        return self.handle if broker.authorization is None else self.guarded

    @cached_property
    def entries_of(self) -> Callable[[Any], int]:
        """How many entries a response has, where `counts_entries`."""
        module = import_module(f"{__name__}.{self.api_key.name.lower()}")
        function: Callable[[Any], int] = module.entries_of
        return function


API_TABLE: dict[int, Handler] = {
    handler.api_key: handler
    for handler in (
        # librdkafka compresses only for brokers that claim to support Produce 0, so Kafka 4 claims
        # that, although it serves versions from 3 (KAFKA-18659). So does this broker.
        Handler(ApiKey.PRODUCE, 3, 13, answers_at_once=True, advertised_first=0),
        Handler(ApiKey.FETCH, 4, 18),
        Handler(ApiKey.LIST_OFFSETS, 1, 11),
        Handler(ApiKey.METADATA, 0, 13, counts_entries=True),
        Handler(ApiKey.OFFSET_COMMIT, 2, 10),
        Handler(ApiKey.OFFSET_FETCH, 1, 10),
        Handler(ApiKey.FIND_COORDINATOR, 0, 6),
        Handler(ApiKey.JOIN_GROUP, 0, 9),
        Handler(ApiKey.HEARTBEAT, 0, 4),
        Handler(ApiKey.LEAVE_GROUP, 0, 5),
        Handler(ApiKey.SYNC_GROUP, 0, 5),
        Handler(ApiKey.DESCRIBE_GROUPS, 0, 6),
        Handler(ApiKey.LIST_GROUPS, 0, 5),
        # On SASL listeners the connection itself answers this one and SaslAuthenticate.
        Handler(ApiKey.SASL_HANDSHAKE, 0, 1),
        Handler(ApiKey.API_VERSIONS, 0, 5),
        Handler(ApiKey.CREATE_TOPICS, 2, 7, is_for_controller=True),
        Handler(ApiKey.DELETE_TOPICS, 1, 6, is_for_controller=True),
        Handler(ApiKey.DELETE_RECORDS, 0, 2),
        Handler(ApiKey.INIT_PRODUCER_ID, 0, 6),
        Handler(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4),
        Handler(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5),
        Handler(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4),
        Handler(ApiKey.END_TXN, 0, 5),
        Handler(ApiKey.WRITE_TXN_MARKERS, 1, 2),
        Handler(ApiKey.TXN_OFFSET_COMMIT, 0, 6),
        Handler(ApiKey.DESCRIBE_ACLS, 1, 3, counts_entries=True),
        Handler(ApiKey.CREATE_ACLS, 1, 3, is_for_controller=True),
        Handler(ApiKey.DELETE_ACLS, 1, 3, is_for_controller=True, counts_entries=True),
        Handler(ApiKey.DESCRIBE_CONFIGS, 1, 4, counts_entries=True),
        Handler(ApiKey.ALTER_CONFIGS, 0, 2, is_for_controller=True),
        Handler(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2),
        Handler(ApiKey.DESCRIBE_LOG_DIRS, 1, 5),
        Handler(ApiKey.SASL_AUTHENTICATE, 0, 2),
        Handler(ApiKey.CREATE_PARTITIONS, 0, 3, is_for_controller=True),
        Handler(ApiKey.DELETE_GROUPS, 0, 3),
        Handler(ApiKey.ELECT_LEADERS, 0, 2, is_for_controller=True),
        # Log levels belong to one broker, so the handler forwards only the rest.
        Handler(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, is_for_controller=True, forwards_itself=True
        ),
        Handler(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, is_for_controller=True),
        Handler(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, is_for_controller=True),
        Handler(ApiKey.OFFSET_DELETE, 0, 0),
        Handler(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1),
        Handler(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, is_for_controller=True),
        Handler(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0),
        Handler(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, is_for_controller=True),
        Handler(ApiKey.DESCRIBE_QUORUM, 0, 2, is_for_controller=True),
        Handler(ApiKey.UPDATE_FEATURES, 0, 2, is_for_controller=True),
        Handler(ApiKey.DESCRIBE_CLUSTER, 0, 2),
        Handler(ApiKey.DESCRIBE_PRODUCERS, 0, 0),
        Handler(ApiKey.UNREGISTER_BROKER, 0, 0, is_for_controller=True),
        Handler(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0),
        Handler(ApiKey.LIST_TRANSACTIONS, 0, 2),
        Handler(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0),
        Handler(ApiKey.PUSH_TELEMETRY, 0, 0),
        Handler(ApiKey.LIST_CONFIG_RESOURCES, 0, 1),
        Handler(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1),
        Handler(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1),
        Handler(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0),
        Handler(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1),
        Handler(ApiKey.ADD_RAFT_VOTER, 0, 1, is_for_controller=True),
        Handler(ApiKey.REMOVE_RAFT_VOTER, 0, 0, is_for_controller=True),
        Handler(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1),
        Handler(ApiKey.SHARE_FETCH, 1, 2),
        Handler(ApiKey.SHARE_ACKNOWLEDGE, 1, 2),
        Handler(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, 1),
        Handler(ApiKey.STREAMS_GROUP_DESCRIBE, 0, 1),
        Handler(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1),
        Handler(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0),
        Handler(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0),
        Handler(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, 0, 0),
    )
}
