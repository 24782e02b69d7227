"""Plans for administrators: list, describe and fence transactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from minikafka.protocol.messages import describe_transactions as describe_transactions_api
from minikafka.protocol.messages import list_transactions as list_transactions_api
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import KafkaError, broker_error
from minikafka_client.plans.coordinators import TRANSACTION_KEY_TYPE, at_coordinators
from minikafka_client.plans.plan import Call, Plan, call_all
from minikafka_client.plans.rounds import in_rounds, outcome_of, refresh_metadata
from minikafka_client.plans.transactions import Coordinator, Identity, init_producer
from minikafka_client.types import TopicPartition, TransactionDescription, TransactionListing

_DURATION_VERSION = 1


def list_transactions(
    cluster: Cluster,
    *,
    states: Iterable[str] = (),
    producer_ids: Iterable[int] = (),
    duration_ms_min: int = -1,
) -> Plan[list[TransactionListing]]:
    """List the transactional ids of all brokers, sorted; those that pass every filter given.

    Args:
        cluster: where.
        states: such as ``"Ongoing"`` or ``"CompleteCommit"``.
        producer_ids: of these producers.
        duration_ms_min: only transactions that are open for longer (KIP-994).

    Raises:
        KafkaError: the only broker did not answer.
        SomeFailedError: some of several brokers did not answer.
    """
    request = list_transactions_api.Request(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=duration_ms_min,
    )
    version_min = _DURATION_VERSION if duration_ms_min >= 0 else 0

    def attempt(nodes: Sequence[int]) -> Plan[Mapping[int, list[TransactionListing] | KafkaError]]:
        calls = [Call(node, request, version_min) for node in nodes]
        answers = yield from call_all(calls, list_transactions_api.Response)
        return {
            node: answer if isinstance(answer, KafkaError) else _listings(node, answer)
            for node, answer in zip(nodes, answers, strict=True)
        }

    yield from refresh_metadata()
    found = yield from in_rounds(sorted(cluster.brokers), attempt)
    return sorted(listing for listings in found.values() for listing in listings)


def _listings(
    node: int, response: list_transactions_api.Response
) -> list[TransactionListing] | KafkaError:
    if response.error_code:
        return broker_error(response.error_code, f"transactions of broker {node}")
    return [
        TransactionListing(each.transactional_id, each.producer_id, each.transaction_state)
        for each in response.transaction_states
    ]


def describe_transactions(
    cluster: Cluster, transactional_ids: Iterable[str]
) -> Plan[dict[str, TransactionDescription]]:
    """Describe the present (or last) transaction of each transactional id.

    Raises:
        BrokerError: the only id is not known (TRANSACTIONAL_ID_NOT_FOUND), or was refused.
        SomeFailedError: some of several ids are not known.
    """

    def make_call(node: int, asked: Sequence[str]) -> Call:
        return Call(node, describe_transactions_api.Request(transactional_ids=list(asked)))

    def attempt(asked: Sequence[str]) -> Plan[Mapping[str, TransactionDescription | KafkaError]]:
        return at_coordinators(
            cluster,
            asked,
            make_call,
            describe_transactions_api.Response,
            _described,
            TRANSACTION_KEY_TYPE,
        )

    return in_rounds(transactional_ids, attempt)


def _described(
    node: int, response: describe_transactions_api.Response
) -> dict[str, TransactionDescription | KafkaError]:
    return {
        each.transactional_id: outcome_of(
            TransactionDescription(
                each.transactional_id,
                node,
                each.transaction_state,
                each.producer_id,
                each.producer_epoch,
                each.transaction_timeout_ms,
                each.transaction_start_time_ms,
                tuple(
                    TopicPartition(topic.topic, partition)
                    for topic in each.topics
                    for partition in topic.partitions
                ),
            ),
            each.error_code,
            f"transactional id {each.transactional_id!r}",
        )
        for each in response.transaction_states
    }


def fence_producers(
    cluster: Cluster, transactional_ids: Iterable[str], *, transaction_timeout_ms: int = 60_000
) -> Plan[None]:
    """End the open transactions of transactional ids, and fence their producers.

    Open transactions are aborted, prepared ones too; decided ones are completed first. The
    producers' next requests fail with `FencedError`; new ones may start immediately.

    Args:
        cluster: where.
        transactional_ids: handled one after the other; an unknown id is registered.
        transaction_timeout_ms: of the ids, until their next producers say something else.

    Raises:
        KafkaError: a coordinator refused, or could not be asked in time. The ids before are fenced.
    """
    for name in transactional_ids:
        coordinator = Coordinator(name, TRANSACTION_KEY_TYPE)
        yield from init_producer(cluster, coordinator, Identity(name), transaction_timeout_ms)
