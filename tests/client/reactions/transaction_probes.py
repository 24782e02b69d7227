"""The same for what coordinators and partitions answer to a producer with transactions.

Words that only `transaction_table.py` uses; the others are those of `probes.py`:

    soon     the same is asked after a short pause: the transaction before is just ending
    abort    the transaction can only be aborted; the next one begins as usual
    group    the same, and the error says that the group refused
    member   the same, and the error says that another member took over
    fatal    the producer cannot be used again
    unknown  the same, because it may or may not be committed
    new      a new epoch is requested: the transaction is closed, one way or the other
    aborted  the error says that it is aborted
    other    the error says that it was decided otherwise
    taken    the error says that another producer took over
    refused  there is no two-phase commit here, and the error says why
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    end_txn,
    find_coordinator,
    txn_offset_commit,
)
from minikafka.protocol.messages import init_producer_id as init_producer_id_api
from minikafka_client import errors
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.producer_batch import BatchState
from minikafka_client.core.transaction import TransactionMachine, TransactionState
from minikafka_client.plans import transactions
from minikafka_client.plans.coordinators import GROUP_KEY_TYPE, TRANSACTION_KEY_TYPE
from minikafka_client.plans.plan import Plan
from minikafka_client.plans.two_phase_commit import end_prepared_transaction, recover_transaction
from minikafka_client.types import GroupMetadata, PreparedTransactionState, TopicPartition
from tests.client.core.sender_world import TOPIC
from tests.client.core.transaction_world import TransactionWorld
from tests.client.plans import answers
from tests.client.plans.scripted import Script
from tests.client.reactions.probes import told

WHERE = TopicPartition("t", 0)
WHO = transactions.Identity("id", 7, 3)
MEMBER = GroupMetadata("g", 3, "m", "instance")
NO_ERROR = ErrorCode.NONE

_AFTER: dict[TransactionState, str] = {
    TransactionState.ABORTABLE: "abort",
    TransactionState.FATAL: "fatal",
}


def _open_machine() -> TransactionMachine:
    machine = TransactionMachine("id")
    machine.granted(7, 3, 2)
    machine.begin()
    machine.has_begun = True
    return machine


def _asked(
    code: ErrorCode,
    start: Callable[[Cluster], Plan[object]],
    request_type: type[Any],
    answer: Callable[[ErrorCode], Any],
) -> str | errors.KafkaError:
    """Answer a plan's request with a code, and then well; what it does, or raises."""
    script = Script().on(request_type, answer(code), answer(NO_ERROR))
    script.on(api_versions.Request, answers.versions())
    try:
        script.run(start)
    except errors.KafkaError as error:
        return error
    asked = len(script.asked(request_type))
    if asked == 1:
        return "ok"
    assert asked == 2
    if len(script.asked(find_coordinator.Request)) == 2:
        return "find"
    return "retry" if script.pauses else "soon"


# --- a partition ---------------------------------------------------------------------------------


def produce(code: ErrorCode) -> str:
    """One partition's error in a Produce answer, within a transaction."""
    world = TransactionWorld(2, partition_count=1)
    world.begin()
    world.send(0, b"first")
    world.expire()
    world.settle()
    for number in range(4):
        world.send(0, b"%d" % number)
    world.expire()
    [batch] = {handle[0] for handle in world.handles[1:]}
    epoch = world.accumulator.queues[TOPIC, 0].producer_epoch
    world.wants_metadata = False
    world.process(1, code)
    world.answer(1)
    if world.machine.state in _AFTER:
        assert world.machine.error is not None
        told(world.machine.error, code)
        return _AFTER[world.machine.state]
    if batch.state is BatchState.DONE:
        assert batch.error is None
        return "ok"
    if batch.state is BatchState.SPLIT:
        return "split"
    if world.wants_metadata:
        return "refresh"
    world.expire(2.0)
    assert len(world.in_flight[1]) == 1, "it is sent again"
    assert world.accumulator.queues[TOPIC, 0].producer_epoch == epoch
    return "retry"


# --- coordinators --------------------------------------------------------------------------------


def _where() -> transactions.Coordinator:
    return transactions.Coordinator("id", TRANSACTION_KEY_TYPE)


def init_producer_id(code: ErrorCode) -> str:
    """The error of an InitProducerId answer with a transactional id, when a producer is opened."""
    found = _asked(
        code,
        lambda cluster: transactions.init_producer(
            cluster, _where(), transactions.Identity("id"), 60_000
        ),
        init_producer_id_api.Request,
        lambda given: answers.granted(code=given),
    )
    return found if isinstance(found, str) else told(found, code)


def recover(code: ErrorCode) -> str:
    """The error of an InitProducerId answer when a prepared transaction is to be kept (KIP-939)."""
    found = _asked(
        code,
        lambda cluster: recover_transaction(cluster, "id"),
        init_producer_id_api.Request,
        lambda given: answers.granted(code=given),
    )
    if isinstance(found, errors.TwoPhaseCommitError):
        return "refused"
    return found if isinstance(found, str) else told(found, code)


def add_partitions_(code: ErrorCode) -> str:
    machine = TransactionMachine("id")
    machine.granted(7, 3, 0)
    machine.begin()
    assert not machine.may_send_to(WHERE)
    machine.take_wanted()
    found = _asked(
        code,
        lambda cluster: transactions.add_partitions(cluster, _where(), WHO, [WHERE]),
        add_partitions_to_txn.Request,
        answers.added,
    )
    if isinstance(found, str):
        return found
    machine.partitions_added(found)
    return _state_of(machine, machine.error, code)


def _state_of(machine: TransactionMachine, heard: errors.KafkaError | None, code: ErrorCode) -> str:
    assert heard is not None
    told(heard, code)
    return _AFTER[machine.state]


def add_group(code: ErrorCode) -> str:
    return _offsets(
        code,
        lambda cluster: transactions.add_offsets(cluster, _where(), WHO, "g"),
        add_offsets_to_txn.Request,
        lambda given: add_offsets_to_txn.Response(error_code=given),
    )


def commit_offsets(code: ErrorCode) -> str:

    def start(cluster: Cluster) -> Plan[None]:
        group = transactions.Coordinator("g", GROUP_KEY_TYPE)
        return transactions.commit_offsets_in_transaction(
            cluster, group, WHO, MEMBER, {WHERE: 5}, has_own_epochs=True
        )

    return _offsets(code, start, txn_offset_commit.Request, answers.committed)


def _offsets(
    code: ErrorCode,
    start: Callable[[Cluster], Plan[None]],
    request_type: type[Any],
    answer: Callable[[ErrorCode], Any],
) -> str:
    found = _asked(code, start, request_type, answer)
    if isinstance(found, str):
        return found
    machine = _open_machine()
    heard = machine.offsets_refused(found, MEMBER)
    state = _state_of(machine, heard, code)
    if isinstance(heard, errors.CommitFailedError):
        assert state == "abort"
        return "group"
    if isinstance(heard, errors.FencedError) and state == "abort":
        return "member"
    return state


# --- the end -------------------------------------------------------------------------------------


def _end(code: ErrorCode, *, commits: bool) -> str | errors.KafkaError:
    return _asked(
        code,
        lambda cluster: transactions.end_transaction(
            cluster, _where(), WHO, commits=commits, has_own_epochs=True
        ),
        end_txn.Request,
        answers.ended,
    )


def commit(code: ErrorCode) -> str:
    """The error of an EndTxn answer to a commit, when no earlier one was left unanswered."""
    found = _end(code, commits=True)
    if isinstance(found, str):
        return found
    machine = _open_machine()
    machine.commit()
    machine.commit_refused(found, is_in_doubt=False)
    if isinstance(machine.error, errors.CommitUnknownError):
        return "unknown"
    return _state_of(machine, machine.error, code)


def abort(code: ErrorCode) -> str:
    """The error of an EndTxn answer to an abort."""
    found = _end(code, commits=False)
    if isinstance(found, str):
        return found
    if found.code is ErrorCode.INVALID_TXN_STATE:
        return "new"
    machine = _open_machine()
    machine.abort()
    return _state_of(machine, machine.refused(found), code)


def decide(code: ErrorCode) -> str:
    """The error of an EndTxn answer when committing what another process has prepared."""
    return _decide(code, commits=True)


def decide_against(code: ErrorCode) -> str:
    """The same when aborting it."""
    return _decide(code, commits=False)


def _decide(code: ErrorCode, *, commits: bool) -> str:
    prepared = PreparedTransactionState(7, 3)
    found = _asked(
        code,
        lambda cluster: end_prepared_transaction(cluster, "id", prepared, commits=commits),
        end_txn.Request,
        answers.ended,
    )
    if isinstance(found, str):
        return found
    told(found, code)
    for kind, word in _DECIDING.items():
        if isinstance(found, kind):
            return word
    return "fail"


_DECIDING: dict[type[errors.KafkaError], str] = {
    errors.TransactionAbortedError: "aborted",
    errors.TransactionStateError: "other",
    errors.FencedError: "taken",
}

PROBES: dict[str, Callable[[ErrorCode], str]] = {
    "Produce": produce,
    "Init": init_producer_id,
    "Recover": recover,
    "Add": add_partitions_,
    "Group": add_group,
    "Offsets": commit_offsets,
    "Commit": commit,
    "Abort": abort,
    "Decide": decide,
    "Against": decide_against,
}
"""By the columns of the table: each function is named for its answer."""
