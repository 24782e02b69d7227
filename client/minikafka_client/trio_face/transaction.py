"""What `Producer.transaction` returns."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from minikafka_client.trio_face.prepared import PreparedTransactions
from minikafka_client.trio_face.transactions import HasGroup, Offsets
from minikafka_client.types import GroupMetadata, PreparedTransactionState


class Transaction:
    """One transaction of a producer: ``async with producer.transaction() as transaction``.

    Raises (when the block is left without an exception):
        TransactionAbortedError: something could not be delivered, or it took too long; it was
            aborted, and may be done again.
        FencedError: another producer with the same ``transactional_id`` took over.
        CommitUnknownError: the coordinator did not answer within ``delivery_timeout_ms``.
        KafkaError: the producer cannot be used any more.
    """

    def __init__(self, transactions: PreparedTransactions) -> None:
        self._transactions = transactions

    async def __aenter__(self) -> Self:
        await self._transactions.begin()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._transactions.leave(exc)

    async def send_offsets(
        self, offsets: Offsets, consumer: HasGroup | GroupMetadata | str
    ) -> None:
        """Commit offsets of a consumer's group when, and only when, the transaction is committed.

        The group sees to it that the consumer still is a member (KIP-447); a group id alone, or a
        consumer that is not subscribed, commits for a group without members.

        Raises:
            CommitFailedError: the group moved on without this consumer; leave the block.
            TransactionAbortableError: the offsets are refused; leave the block.
            TransactionStateError: the transaction is not open.
            FencedError: another one took over from the producer or from the member.
        """
        await self._transactions.send_offsets(offsets, consumer)

    async def prepare(self) -> PreparedTransactionState:
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
        return await self._transactions.prepare()
