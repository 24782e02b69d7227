"""Leases: the answer to a heartbeat confirms a broker's leadership."""

from __future__ import annotations

from pathlib import Path

import trio

from minikafka.metadata.brokers import Registration, ShutdownProgress
from minikafka.metadata.decision import Refusal
from tests.kit.in_process import running_broker, running_cluster

STRANGER = 99


async def test_only_a_broker_that_stayed_in_service_keeps_leading(tmp_path: Path) -> None:
    """A broker that was fenced before its heartbeat arrived has already lost its partitions."""
    async with running_broker(tmp_path) as under_test:
        controller = under_test.broker.controller
        registration = Registration(STRANGER, b"s" * 16, "h", 1, "h", 2)
        image = await controller.register(registration)
        assert not isinstance(image, Refusal)

        async def heartbeat(*, wants_to_stop: bool = False) -> tuple[bool, bool]:
            progress = await controller.heartbeat(
                STRANGER,
                image.broker_epoch,
                under_test.broker.quorum.applied_index,
                wants_to_stop=wants_to_stop,
                is_forced=False,
            )
            assert isinstance(progress, ShutdownProgress)
            return progress.keeps_leading, progress.has_majority

        # The first one renews the lease at the controller; before, others may have been elected.
        assert [(await heartbeat())[0] for _ in range(3)] == [False, True, True]
        assert (await heartbeat(wants_to_stop=True))[1]


async def test_every_answer_of_a_controller_with_a_majority_says_so(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        controller = await cluster.controller()
        others = [one.node_id for one in cluster.running if one is not controller]
        broker = controller.broker

        async def has_majority() -> bool:
            progress = await broker.controller.heartbeat(
                controller.node_id,
                broker.lifecycle.broker_epoch,
                broker.quorum.applied_index,
                wants_to_stop=False,
                is_forced=False,
            )
            assert isinstance(progress, ShutdownProgress)
            return progress.has_majority

        assert await has_majority()
        await cluster.kill(*others)
        while broker.controller.is_active and await has_majority():
            await trio.lowlevel.checkpoint()
        assert not await has_majority()


async def test_a_lease_does_not_wait_for_the_next_regular_heartbeat(tmp_path: Path) -> None:
    """Heartbeats are an hour apart here; all other leases end when the controller is replaced."""
    async with running_cluster(
        tmp_path, "broker.heartbeat.interval.ms=3600000", "broker.session.timeout.ms=7200000"
    ) as cluster:
        brokers = [node.broker for node in cluster.running]
        await cluster.until(lambda: all(one.lifecycle.has_lease for one in brokers))
        assert not any(one.lifecycle.is_without_lease_for_long for one in brokers)
        old = await cluster.controller()
        await cluster.kill(old.node_id)
        others = [node.broker for node in cluster.running]
        await cluster.until(lambda: any(one.controller.is_active for one in others))
        await cluster.until(lambda: all(one.lifecycle.has_lease for one in others))
        assert not any(one.lifecycle.is_without_lease_for_long for one in others)
        await cluster.start(old.node_id)
        await cluster.until(lambda: old.broker.lifecycle.has_lease)
        assert not old.broker.lifecycle.is_without_lease_for_long
