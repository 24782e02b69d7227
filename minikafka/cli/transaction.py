"""``minikafka transaction``: look at transactions, and end those that are stuck."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from .failure import CommandFailed, unknown_name
from .output import count_of, iso_time, note, print_json, print_table
from .target import Target, client_command, connected, require_topics

if TYPE_CHECKING:
    from minikafka_client import (
        AdminClient,
        HangingTransaction,
        PreparedTransactionState,
        TransactionDescription,
    )

_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)
_TRANSACTION_SECONDS_MAX: Final = 900
"""The longest a transaction may take, unless transaction.max.timeout.ms was raised."""


def _silent_for(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """``--silent-for``; `what` is done to transactions with recent writes."""
    return click.option(
        "--silent-for",
        "silent_s",
        type=click.FloatRange(min=0),
        default=_TRANSACTION_SECONDS_MAX,
        show_default=True,
        metavar="SECONDS",
        help=f"{what} transactions with a write within this time; should be at least "
        "transaction.max.timeout.ms.",
    )


@click.group("transaction")
def command() -> None:
    """Look at transactions, and end those that are stuck."""


@command.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(_STATES, case_sensitive=False),
    metavar="STATE",
    help="Only transactions in this state, e.g. Ongoing; may be repeated.",
)
@click.option(
    "--producer-id",
    "producer_ids",
    multiple=True,
    type=int,
    metavar="ID",
    help="Only of this producer; may be repeated.",
)
@click.option(
    "--longer-than",
    "open_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Only transactions that have been open for longer than this.",
)
@client_command
async def list_(
    target: Target, states: tuple[str, ...], producer_ids: tuple[int, ...], open_s: float | None
) -> None:
    r"""List transactional ids with their producer id and state.

    \b
    Examples:
      minikafka transaction list
      minikafka transaction list --state Ongoing --longer-than 60
    """
    async with connected(target) as admin:
        found = await admin.list_transactions(
            states=states,
            producer_ids=producer_ids,
            duration_ms_min=-1 if open_s is None else int(open_s * 1000),
        )
    if target.as_json:
        print_json({"transactions": [one._asdict() for one in found]})
        return
    print_table(["transactional id", "producer", "state"], [list(one) for one in found])


@command.command("describe")
@click.argument("transactional_ids", metavar="ID...", nargs=-1, required=True)
@client_command
async def describe(target: Target, transactional_ids: tuple[str, ...]) -> None:
    r"""Describe transactions: state, producer, partitions.

    A transactional id has at most one open transaction; if none is open, the last one is shown.

    \b
    Examples:
      minikafka transaction describe copier-1
      minikafka transaction describe copier-1 --json | jq '.transactions[0].partitions'
    """
    async with connected(target) as admin:
        found = [await _described(admin, name) for name in transactional_ids]
    if target.as_json:
        print_json({"transactions": [_document(one) for one in found]})
        return
    for one in found:
        since = f"  since {iso_time(one.started_at_ms)}" if one.started_at_ms >= 0 else ""
        title = (
            f"{one.transactional_id}  {one.state}{since}  producer {one.producer_id} epoch "
            f"{one.producer_epoch}  timeout {one.timeout_ms / 1000:g} s  "
            f"coordinator {one.coordinator}"
        )
        print_table(["topic", "partition"], [list(each) for each in one.partitions], title)


def _document(one: TransactionDescription) -> dict[str, Any]:
    return {
        **one._asdict(),
        "started_at_ms": None if one.started_at_ms < 0 else one.started_at_ms,
        "partitions": [each._asdict() for each in one.partitions],
    }


async def _described(admin: AdminClient, name: str) -> TransactionDescription:
    from minikafka.protocol.errors import ErrorCode
    from minikafka_client import KafkaError

    try:
        return (await admin.describe_transactions([name]))[name]
    except KafkaError as error:
        if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise
    known = [one.transactional_id for one in await admin.list_transactions()]
    todo = "list them with `minikafka transaction list`"
    raise unknown_name("transactional id", name, known, todo)


@command.command("find-hanging")
@click.option("--topic", "topics", multiple=True, help="Search only this topic; may be repeated.")
@_silent_for("Leave out")
@client_command
async def find_hanging(target: Target, topics: tuple[str, ...], silent_s: float) -> None:
    r"""Find hanging transactions.

    They are open in a partition, but unknown to their coordinator, so that nothing will end them,
    and consumers with isolation level read_committed never get past them. Brokers that verify
    transactions (KIP-890) do not let them arise.

    \b
    Examples:
      minikafka transaction find-hanging
      minikafka transaction find-hanging --topic orders --json
    """
    async with connected(target) as admin:
        await require_topics(admin, topics)
        found = await _hanging(admin, topics or None, silent_s)
    if target.as_json:
        print_json({"hanging": [_hanging_document(one) for one in found]})
        return
    if not found:
        click.echo("no hanging transactions")
        return
    print_table(
        ["topic", "partition", "from offset", "producer", "epoch", "last written", "id"],
        [
            [
                *one.partition,
                one.producer.transaction_start_offset,
                one.producer.producer_id,
                one.producer.producer_epoch,
                iso_time(one.producer.last_timestamp_ms),
                one.transactional_id,
            ]
            for one in found
        ],
    )
    note("end one with `minikafka transaction abort-hanging TOPIC PARTITION OFFSET`")


def _hanging_document(one: HangingTransaction) -> dict[str, Any]:
    return {
        **one.partition._asdict(),
        **one.producer._asdict(),
        "transactional_id": one.transactional_id,
    }


async def _hanging(
    admin: AdminClient, topics: tuple[str, ...] | None, silent_s: float
) -> list[HangingTransaction]:
    silent_since_ms = int((time.time() - silent_s) * 1000)
    return await admin.find_hanging_transactions(topics, silent_since_ms=silent_since_ms)


@command.command("abort-hanging")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@click.argument("offset", type=click.IntRange(min=0))
@_silent_for("Refuse")
@client_command
async def abort_hanging(
    target: Target, topic: str, partition: int, offset: int, silent_s: float
) -> None:
    r"""Abort the hanging transaction that starts at an offset.

    Only transactions that `find-hanging` shows can be aborted like this: the coordinator of another
    one might commit it in its other partitions. To end that one as a whole, use `minikafka
    transaction terminate`.

    \b
    Examples:
      minikafka transaction abort-hanging orders 0 4711
    """
    where = f"partition {partition} of topic {topic!r}"
    async with connected(target) as admin:
        await require_topics(admin, [topic])
        for one in await _hanging(admin, (topic,), silent_s):
            begins_at = one.producer.transaction_start_offset
            if (one.partition.partition, begins_at) == (partition, offset):
                break
        else:
            raise CommandFailed(
                f"no hanging transaction starts at offset {offset} of {where}; see `minikafka "
                f"transaction find-hanging --topic {topic}`, and `minikafka transaction list` for "
                f"the others"
            )
        await admin.abort_hanging_transaction(one.partition, one.producer)
    if target.as_json:
        print_json({"aborted": _hanging_document(one)})
        return
    click.echo(f"aborted the transaction of producer {one.producer.producer_id} in {where}")


@command.command("terminate")
@click.argument("transactional_ids", metavar="ID...", nargs=-1, required=True)
@client_command
async def terminate(target: Target, transactional_ids: tuple[str, ...]) -> None:
    r"""Abort open transactions, and fence their producers.

    This includes prepared transactions (two-phase commit): the external coordinator must no longer
    commit its own part. A transaction that is already being committed or aborted is completed.

    \b
    Examples:
      minikafka transaction terminate copier-1
    """
    async with connected(target) as admin:
        before = [await _described(admin, name) for name in transactional_ids]
        await admin.fence_producers(transactional_ids)
    if target.as_json:
        print_json({"terminated": [_document(one) for one in before]})
        return
    for one in before:
        where = count_of(len(one.partitions), "partition")
        click.echo(f"terminated {one.transactional_id}: it was {one.state}, in {where}")


@command.command("complete")
@click.argument("transactional_id", metavar="ID")
@click.option(
    "--stored",
    required=True,
    metavar="PRODUCER_ID:EPOCH",
    help="The prepared transaction that the external coordinator has on record; '' for none.",
)
@client_command
async def complete(target: Target, transactional_id: str, stored: str) -> None:
    r"""Commit or abort a prepared transaction (two-phase commit).

    It is committed if it is the stored one, and aborted otherwise, as its producer would do when it
    next starts. This takes over the transactional id, so a producer still using it is fenced.

    \b
    Examples:
      minikafka transaction complete bank-1 --stored 1000:7
      minikafka transaction complete bank-1 --stored ''
    """
    from minikafka_client import PreparedTransactionState

    try:
        state: PreparedTransactionState = PreparedTransactionState.parse(stored)
    except ValueError as error:
        raise click.UsageError(f"--stored: {error}") from None
    async with connected(target) as admin:
        await _described(admin, transactional_id)
        outcome = await admin.complete_transaction(transactional_id, state)
    if target.as_json:
        print_json({"transactional_id": transactional_id, "outcome": outcome.name.lower()})
        return
    click.echo(f"{transactional_id}: {outcome.value}")
