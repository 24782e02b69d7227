"""The administrator's client for ordinary programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import (
    Any,
    Concatenate,
    Final,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    cast,
    overload,
)

from minikafka_client.core.cluster import Cluster
from minikafka_client.plans import (
    acls,
    brokers,
    configs,
    group_offsets,
    groups,
    hanging_transactions,
    offsets,
    quorum,
    quotas,
    share_groups,
    topics,
    transaction_admin,
    two_phase_commit,
    users,
)
from minikafka_client.plans.plan import Plan
from minikafka_client.properties import admin_options
from minikafka_client.signatures import as_method_of_plan
from minikafka_client.sync.plan_client import PlanClient

_Result = TypeVar("_Result")


_P = ParamSpec("_P")
_Returned = TypeVar("_Returned", covariant=True)


class _RunsPlans(Protocol):
    def run_plan(self, start: Callable[[Cluster], Plan[_Result]]) -> _Result: ...


class PlanMethod(Protocol[_P, _Returned]):
    """A method with the parameters of a plan, for type checkers."""

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[Concatenate[Any, _P], _Returned]: ...

    @overload
    def __get__(self, instance: _RunsPlans, owner: type) -> Callable[_P, _Returned]: ...


def method(plan: Callable[Concatenate[Cluster, _P], Plan[_Result]]) -> PlanMethod[_P, _Result]:
    """A method that runs ``plan``; it has the plan's signature and docstring."""

    def run(self: _RunsPlans, *args: _P.args, **kwargs: _P.kwargs) -> _Result:
        return self.run_plan(lambda cluster: plan(cluster, *args, **kwargs))

    return cast("PlanMethod[_P, _Result]", as_method_of_plan(run, plan))


class AdminClient(PlanClient):
    """Administers a cluster: ``with AdminClient("localhost:9092") as admin``.

    Args:
        bootstrap_servers: ``"host:port"``, several with commas between, or a sequence of them.
        connection: see `minikafka_client.options.ConnectionConfig`.

    Every method raises `KafkaError`. What may succeed later is retried until
    ``default_api_timeout_ms`` is over; an unknown topic is not.
    """

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Make an admin client of a dictionary for confluent-kafka, or of Java properties.

        ``{"bootstrap.servers": "localhost:9092", "client.id": "a"}``: the names are Kafka's, or
        librdkafka's where they mean the same; `minikafka_client.properties` has them all.

        Raises:
            TypeError: Kafka has no such property.
            ValueError: a property cannot be set here, or its value is malformed.
        """
        bootstrap_servers, options = admin_options(config, cls.__name__)
        return cls(bootstrap_servers, **options)

    list_topics: Final = method(topics.list_topics)
    describe_topics: Final = method(topics.describe_topics)
    create_topics: Final = method(topics.create_topics)
    delete_topics: Final = method(topics.delete_topics)
    create_partitions: Final = method(topics.create_partitions)
    describe_configs: Final = method(configs.describe_configs)
    alter_configs: Final = method(configs.alter_configs)
    describe_client_quotas: Final = method(quotas.describe_client_quotas)
    alter_client_quotas: Final = method(quotas.alter_client_quotas)
    list_offsets: Final = method(offsets.list_offsets)
    delete_records: Final = method(offsets.delete_records)
    list_groups: Final = method(groups.list_groups)
    describe_groups: Final = method(groups.describe_groups)
    delete_groups: Final = method(groups.delete_groups)
    list_group_offsets: Final = method(group_offsets.list_group_offsets)
    alter_group_offsets: Final = method(group_offsets.alter_group_offsets)
    delete_group_offsets: Final = method(group_offsets.delete_group_offsets)
    list_share_group_offsets: Final = method(share_groups.list_share_group_offsets)
    alter_share_group_offsets: Final = method(share_groups.alter_share_group_offsets)
    delete_share_group_offsets: Final = method(share_groups.delete_share_group_offsets)
    describe_cluster: Final = method(brokers.describe_cluster)
    describe_log_dirs: Final = method(brokers.describe_log_dirs)
    describe_metadata_quorum: Final = method(quorum.describe_metadata_quorum)
    add_raft_voter: Final = method(quorum.add_raft_voter)
    remove_raft_voter: Final = method(quorum.remove_raft_voter)
    update_features: Final = method(quorum.update_features)
    alter_user_scram_credentials: Final = method(users.alter_user_scram_credentials)
    describe_user_scram_credentials: Final = method(users.describe_user_scram_credentials)
    create_acls: Final = method(acls.create_acls)
    describe_acls: Final = method(acls.describe_acls)
    delete_acls: Final = method(acls.delete_acls)
    list_transactions: Final = method(transaction_admin.list_transactions)
    describe_transactions: Final = method(transaction_admin.describe_transactions)
    fence_producers: Final = method(transaction_admin.fence_producers)
    describe_producers: Final = method(hanging_transactions.describe_producers)
    find_hanging_transactions: Final = method(hanging_transactions.find_hanging_transactions)
    abort_hanging_transaction: Final = method(hanging_transactions.abort_hanging_transaction)
    recover_transaction: Final = method(two_phase_commit.recover_transaction)
    end_prepared_transaction: Final = method(two_phase_commit.end_prepared_transaction)
    complete_transaction: Final = method(two_phase_commit.complete_transaction)
