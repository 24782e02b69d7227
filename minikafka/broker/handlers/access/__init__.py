"""Who may do what: for every API a rule that stands before its handler, as in Kafka's KafkaApis.

A rule takes out of a request what the client has no right to, has the handler answer the rest, adds
the refusals, and takes out of the answer what the client must not see. `RULES` has the rule of
every API; one that is missing there is not served where there is an authorizer. Fetch and
ShareFetch read what their sessions remember, so these handlers ask for each topic themselves.

Requests for the controller are judged there, with the principal that travels with them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from typing import Any, Final

from ....protocol.api import ApiKey

__all__ = ["RULES", "guarded"]

RULES: Final[dict[ApiKey, str]] = {
    ApiKey.PRODUCE: "records",
    ApiKey.FETCH: "open_to_all",  # the handler asks: READ of each topic, CLUSTER_ACTION of replicas
    ApiKey.LIST_OFFSETS: "records",
    ApiKey.METADATA: "topics",
    ApiKey.OFFSET_COMMIT: "offsets",
    ApiKey.OFFSET_FETCH: "offsets",
    ApiKey.FIND_COORDINATOR: "groups",
    ApiKey.JOIN_GROUP: "groups",
    ApiKey.HEARTBEAT: "groups",
    ApiKey.LEAVE_GROUP: "groups",
    ApiKey.SYNC_GROUP: "groups",
    ApiKey.DESCRIBE_GROUPS: "groups",
    ApiKey.LIST_GROUPS: "groups",
    ApiKey.API_VERSIONS: "open_to_all",
    ApiKey.SASL_HANDSHAKE: "open_to_all",
    ApiKey.SASL_AUTHENTICATE: "open_to_all",
    ApiKey.CREATE_TOPICS: "topics",
    ApiKey.DELETE_TOPICS: "topics",
    ApiKey.DELETE_RECORDS: "records",
    ApiKey.INIT_PRODUCER_ID: "transactions",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "records",
    ApiKey.ADD_PARTITIONS_TO_TXN: "transactions",
    ApiKey.ADD_OFFSETS_TO_TXN: "transactions",
    ApiKey.END_TXN: "transactions",
    ApiKey.WRITE_TXN_MARKERS: "transactions",
    ApiKey.TXN_OFFSET_COMMIT: "offsets",
    ApiKey.DESCRIBE_ACLS: "cluster",
    ApiKey.CREATE_ACLS: "cluster",
    ApiKey.DELETE_ACLS: "cluster",
    ApiKey.DESCRIBE_CONFIGS: "configs",
    ApiKey.ALTER_CONFIGS: "configs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "cluster",
    ApiKey.DESCRIBE_LOG_DIRS: "cluster",
    ApiKey.CREATE_PARTITIONS: "topics",
    ApiKey.DELETE_GROUPS: "groups",
    ApiKey.ELECT_LEADERS: "cluster",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "configs",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "cluster",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "cluster",
    ApiKey.OFFSET_DELETE: "offsets",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "cluster",
    ApiKey.ALTER_CLIENT_QUOTAS: "cluster",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "cluster",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "cluster",
    ApiKey.DESCRIBE_QUORUM: "cluster",
    ApiKey.UPDATE_FEATURES: "cluster",
    ApiKey.DESCRIBE_CLUSTER: "cluster",
    ApiKey.DESCRIBE_PRODUCERS: "records",
    ApiKey.UNREGISTER_BROKER: "cluster",
    ApiKey.DESCRIBE_TRANSACTIONS: "transactions",
    ApiKey.LIST_TRANSACTIONS: "transactions",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "open_to_all",
    ApiKey.PUSH_TELEMETRY: "open_to_all",
    ApiKey.LIST_CONFIG_RESOURCES: "cluster",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "groups",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "groups",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "topics",
    ApiKey.SHARE_GROUP_HEARTBEAT: "groups",
    ApiKey.SHARE_GROUP_DESCRIBE: "groups",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "groups",
    ApiKey.STREAMS_GROUP_DESCRIBE: "groups",
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: "groups",
    ApiKey.ADD_RAFT_VOTER: "cluster",
    ApiKey.REMOVE_RAFT_VOTER: "cluster",
    ApiKey.SHARE_FETCH: "shares",
    ApiKey.SHARE_ACKNOWLEDGE: "shares",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "shares",
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: "shares",
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: "shares",
}
"""The module that has the rule of an API, in a function of the API's name (see `cluster` for those
that need one right to the cluster); ``open_to_all`` stands for none."""

_Handle = Callable[..., Awaitable[Any]]


def guarded(api_key: ApiKey, handle: _Handle) -> _Handle:
    """A handler behind the rule of its API.

    Raises:
        KeyError: there is none.
    """
    name = RULES[api_key]
    if name == "open_to_all":
        return handle
    from .asked import serve

    module = import_module(f"{__name__}.{name}")
    if name == "cluster" and api_key in module.RIGHTS:
        return partial(serve, module.one_right, handle)
    behind_rule = partial(serve, getattr(module, api_key.name.lower()), handle)
    if api_key is ApiKey.PRODUCE:
        return partial(module.produce_quickly, handle, behind_rule)
    return behind_rule
