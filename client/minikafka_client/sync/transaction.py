"""A transaction for ordinary programs: the trio one, in the thread that runs trio."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from minikafka_client.sync.portal import Portal
from minikafka_client.trio_face.prepared import PreparedTransactions
from minikafka_client.trio_face.transactions import HasGroup, Offsets
from minikafka_client.types import GroupMetadata, PreparedTransactionState


class Transaction:
    """One transaction of a producer: ``with producer.transaction() as transaction``.

    It raises what `minikafka_client.Transaction` raises, when the block is left and before.
    """

    def __init__(self, portal: Portal, transactions: PreparedTransactions) -> None:
        self._portal = portal
        self._transactions = transactions

    def __enter__(self) -> Self:
        self._portal.call(self._transactions.begin)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._portal.call(self._transactions.leave, exc)

    def send_offsets(self, offsets: Offsets, consumer: HasGroup | GroupMetadata | str) -> None:
        """Commit offsets of a consumer's group when, and only when, the transaction is committed.

        Raises:
            CommitFailedError: the group moved on without this consumer; leave the block.
            TransactionAbortableError: the offsets are refused; leave the block.
            TransactionStateError: the transaction is not open.
            FencedError: another one took over from the producer or from the member.
        """
        if not isinstance(consumer, (GroupMetadata, str)):
            consumer = consumer.group_metadata()  # here: the other thread waits for this one
        self._portal.call(self._transactions.send_offsets, offsets, consumer)

    def prepare(self) -> PreparedTransactionState:
        """Wait until everything is stored, and leave the decision to somebody else (KIP-939).

        Nothing more can be sent. Leaving the block neither commits nor aborts any more, with or
        without an exception: `Producer.complete_transaction` does, with what your own committed
        data says, or `AdminClient.end_prepared_transaction` anywhere.

        With ``transaction_two_phase_commit_enable`` the transaction waits as long as it takes, also
        for a new producer of the same ``transactional_id``; without it, the coordinator aborts it
        after ``transaction_timeout_ms``, and a new producer does so at once.

        Returns:
            Which transaction it is; store it, as a text, together with the decision. It is empty
            when nothing was sent: then there is nothing to decide.

        Raises:
            TransactionAbortableError: something of it is lost; leave the block, which aborts it.
            TransactionStateError: it is not open.
            FencedError: another producer with the same ``transactional_id`` took over.
        """
        return self._portal.call(self._transactions.prepare)
