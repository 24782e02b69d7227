"""A node's background tasks, from its start to its stop."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import trio

from .broker import Broker
from .control.first_users import create_first_users
from .settings.node import Endpoint


async def run(
    broker: Broker, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Take part in the cluster and do the background work, until cancelled.

    It has started when this broker is registered and unfenced (a node that is only a controller:
    immediately).

    Raises:
        StartError: the internal listener cannot be opened, or the cluster rejects this broker or
            the users that it should create.
    """
    # The tasks that follow the metadata log end first, while everything they use still runs.
    partitions = trio.CancelScope(shield=True)
    connections = trio.CancelScope(shield=True)
    interconnect = broker.interconnect
    async with trio.open_nursery() as nursery:
        try:
            async with trio.open_nursery() as following:
                if interconnect is not None:
                    address = await interconnect.listen()
                    broker.node.internal_endpoint = Endpoint(*address)
                    await nursery.start(_run_until, connections, interconnect.run)
                await following.start(_run_quorum, broker)
                following.start_soon(broker.controller.run)
                if broker.node.topology.is_broker:
                    await nursery.start(_run_until, partitions, run_partitions, broker)
                    await following.start(broker.lifecycle.run)
                    await create_first_users(
                        broker.first_users, broker.store, broker.forwarder, broker.run_in_thread
                    )
                task_status.started()
        finally:
            partitions.cancel()
            connections.cancel()


async def run_partitions(
    broker: Broker, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broker.maintenance.run)
        broker.start_services(nursery)
        await nursery.start(broker.replicas.run)
        task_status.started()


async def _run_quorum(
    broker: Broker, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    interconnect, quorum, store = broker.interconnect, broker.quorum, broker.store
    last_leader: int | None = None

    def quorum_changed() -> None:
        """Give up calls to a leader that has been replaced."""
        nonlocal last_leader
        replaced, last_leader = last_leader, quorum.leader_id
        if interconnect is not None and replaced is not None and replaced != last_leader:
            interconnect.leader_lost(replaced)

    await quorum.run(
        send=_send_nothing if interconnect is None else interconnect.send,
        on_committed=store.apply,
        make_snapshot=store.make_snapshot,
        load_snapshot=store.load_snapshot,
        on_change=quorum_changed,
        task_status=task_status,
    )


def close(broker: Broker, seconds: float = float("inf")) -> None:
    """Close all logs and write the clean-shutdown marker. May block.

    After ``seconds`` the remaining logs are left to recovery at the next start; with 0 no log is
    closed cleanly (an ephemeral broker's directory is removed anyway).
    """
    deadline = time.monotonic() + seconds
    broker.quorum.close()
    if seconds > 0:
        broker.lifecycle.note_clean_stop()
    broker.directory.close(clean=seconds > 0, may_go_on=lambda: time.monotonic() < deadline)


def _send_nothing(node_id: int, message: object) -> None:
    """There are no other nodes."""
    del node_id, message


async def _run_until(
    scope: trio.CancelScope,
    run: Callable[..., Awaitable[None]],
    *arguments: object,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    with scope:
        await run(*arguments, task_status=task_status)
