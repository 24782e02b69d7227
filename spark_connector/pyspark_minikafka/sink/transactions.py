"""Plans that list, commit and abort the transactions of tasks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from minikafka.protocol.messages import api_versions, end_txn, list_transactions
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.transaction import EPOCH_PER_TRANSACTION
from minikafka_client.errors import FencedError, KafkaError, TransactionAbortedError
from minikafka_client.plans.coordinators import TRANSACTION_KEY_TYPE, find_coordinators
from minikafka_client.plans.handshake import CLIENT_SOFTWARE_NAME, CLIENT_SOFTWARE_VERSION
from minikafka_client.plans.plan import Call, Plan, call_all
from minikafka_client.plans.rounds import refresh_metadata
from minikafka_client.plans.transaction_admin import describe_transactions
from minikafka_client.plans.transactions import (
    Coordinator,
    Identity,
    init_producer,
    read_transaction_version,
)
from minikafka_client.plans.two_phase_commit import (
    NO_TIMEOUT_MS,
    end_prepared_transaction,
    recover_transaction,
)
from minikafka_client.types import PreparedTransactionState

from .protocol import Part

ONGOING: Final = "Ongoing"
"""The state of an undecided transaction."""

_TIMEOUT_MS: Final = 60_000
_OWN_EPOCHS_VERSION: Final = 5


def find_open_parts(cluster: Cluster, prefix: str, known: Collection[str]) -> Plan[list[Part]]:
    """The open transactions whose transactional ids have a prefix, except the known ones.

    Brokers that do not answer are skipped: their ids soon have another coordinator.

    Raises:
        KafkaError: no broker could be asked.
    """
    yield from refresh_metadata()
    request = list_transactions.Request(state_filters=[ONGOING])
    calls = [Call(node, request) for node in sorted(cluster.brokers)]
    answers = yield from call_all(calls, list_transactions.Response)
    names = [
        each.transactional_id
        for answer in answers
        if isinstance(answer, list_transactions.Response)
        for each in answer.transaction_states
        if each.transactional_id.startswith(prefix) and each.transactional_id not in known
    ]
    found: list[Part] = []
    for name in names:
        described = (yield from describe_transactions(cluster, [name]))[name]
        if described.state == ONGOING:
            is_two_phase = described.timeout_ms == NO_TIMEOUT_MS
            found.append(Part(name, described.producer_id, described.producer_epoch, is_two_phase))
    return found


def commit_parts(cluster: Cluster, parts: Sequence[Part]) -> Plan[list[Part]]:
    """Commit transactions concurrently; returns those that were already aborted.

    Raises:
        KafkaError: the outcome of one of them is unknown.
    """
    names = [part.transactional_id for part in parts]
    nodes = yield from find_coordinators(cluster, names, TRANSACTION_KEY_TYPE)
    found = {part: nodes[part.transactional_id] for part in parts}
    at = {part: node for part, node in found.items() if isinstance(node, int)}
    versions = yield from _end_versions(sorted(set(at.values())))
    asked = [part for part in at if at[part] in versions]
    calls = [Call(at[part], _end_request(part), *versions[at[part]]) for part in asked]
    answers = yield from call_all(calls, end_txn.Response)
    done = {
        part
        for part, answer in zip(asked, answers, strict=True)
        if isinstance(answer, end_txn.Response) and not answer.error_code
    }
    lost: list[Part] = []
    for part in parts:
        if part not in done:
            is_committed = yield from _commit(cluster, part)
            if not is_committed:
                lost.append(part)
    return lost


def _end_versions(nodes: Sequence[int]) -> Plan[dict[int, tuple[int, int]]]:
    """The range of EndTxn versions for each coordinator (KIP-890)."""
    about = api_versions.Request(
        client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=CLIENT_SOFTWARE_VERSION
    )
    answers = yield from call_all([Call(node, about) for node in nodes], api_versions.Response)
    return {
        node: (_OWN_EPOCHS_VERSION, 32767)
        if read_transaction_version(answer) >= EPOCH_PER_TRANSACTION
        else (0, _OWN_EPOCHS_VERSION - 1)
        for node, answer in zip(nodes, answers, strict=True)
        if isinstance(answer, api_versions.Response) and not answer.error_code
    }


def _end_request(part: Part) -> end_txn.Request:
    return end_txn.Request(
        transactional_id=part.transactional_id,
        producer_id=part.producer_id,
        producer_epoch=part.producer_epoch,
        committed=True,
    )


def _commit(cluster: Cluster, part: Part) -> Plan[bool]:
    """Commit one transaction, with retries; False if it was aborted."""
    try:
        yield from end_prepared_transaction(
            cluster, part.transactional_id, _state(part), commits=True
        )
    except TransactionAbortedError:
        return False
    except FencedError:
        # It has no timeout, and nothing aborts what is recorded. So either another producer has
        # taken over the id, or it was committed, and the id has moved on.
        if part.is_two_phase:
            yield from _end_taken_over(cluster, part, commits=True)
        return part.is_two_phase
    return True


def _state(part: Part) -> PreparedTransactionState:
    return PreparedTransactionState(part.producer_id, part.producer_epoch)


def _end_taken_over(cluster: Cluster, part: Part, *, commits: bool) -> Plan[None]:
    """End a transaction whose id another producer has taken over (KIP-939)."""
    name = part.transactional_id
    described = (yield from describe_transactions(cluster, [name]))[name]
    if described.state != ONGOING or described[3:5] != _state(part):
        return
    found = yield from recover_transaction(cluster, name)
    if found.ongoing == _state(part):
        decider = PreparedTransactionState(found.producer_id, found.producer_epoch)
        yield from end_prepared_transaction(cluster, name, decider, commits=commits)


def abort_part(cluster: Cluster, part: Part) -> Plan[None]:
    """Abort exactly this transaction, and fence its producer.

    Raises:
        KafkaError: it may not be aborted.
    """
    identity = Identity(part.transactional_id, part.producer_id, part.producer_epoch)
    try:
        yield from init_producer(
            cluster, Coordinator(part.transactional_id, TRANSACTION_KEY_TYPE), identity, _TIMEOUT_MS
        )
    except KafkaError:
        if not part.is_two_phase:
            raise
        yield from _end_taken_over(cluster, part, commits=False)
