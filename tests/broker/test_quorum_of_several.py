"""The quorum's driver with several nodes in one process: elections, proposals, snapshots."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from minikafka.broker.quorum.loop import EVENTS_MAX
from minikafka.broker.quorum.quorum import (
    ENTRY_SIZE_BYTES_MAX,
    NotControllerError,
    ProposalLostError,
    ProposalTooLargeError,
)
from minikafka.consensus import decode_message
from minikafka.consensus.effects import RecordVoters, RemoveVoter
from tests.broker.quorum_network import DELAY_S, Network, Node, network


async def test_a_leader_is_elected_and_its_decisions_are_applied_everywhere(
    autojump_clock: MockClock,
) -> None:
    async with network() as cluster:
        leader = await cluster.leader()
        assert await leader.quorum.propose(b"one") == leader.quorum.committed_index
        assert leader.applied == [b"one"]
        await cluster.all_have([b"one"])
        for node in cluster.followers():
            assert node.quorum.leader_id == leader.node_id
            with pytest.raises(NotControllerError) as caught:
                await node.quorum.propose(b"two")
            assert caught.value.leader_id == leader.node_id


async def test_a_proposal_that_is_empty_or_huge_is_refused(autojump_clock: MockClock) -> None:
    async with network() as cluster:
        leader = await cluster.leader()
        with pytest.raises(ValueError, match="decides nothing"):
            await leader.quorum.propose(b"")
        with pytest.raises(ProposalTooLargeError, match="in several steps"):
            await leader.quorum.propose(bytes(ENTRY_SIZE_BYTES_MAX + 1))
        large = bytes(5 * 1024 * 1024)
        await leader.quorum.propose(large)
        await cluster.all_have([large])


async def test_a_decision_of_another_epoch_is_refused(autojump_clock: MockClock) -> None:
    async with network() as cluster:
        leader = await cluster.leader()
        with pytest.raises(NotControllerError):
            await leader.quorum.propose(b"old", epoch=leader.quorum.epoch - 1)
        await leader.quorum.propose(b"new", epoch=leader.quorum.epoch)
        await cluster.all_have([b"new"])


async def test_when_the_leader_is_killed_another_one_takes_over_immediately(
    autojump_clock: MockClock,
) -> None:
    async with network() as cluster:
        leader = await cluster.leader()
        await leader.quorum.propose(b"one")
        leader.kill()
        successor = await cluster.leader(after=leader.quorum.epoch, within_s=0.5)
        assert successor is not leader
        await successor.quorum.propose(b"two")
        await cluster.all_have([b"one", b"two"])
        await cluster.start(leader.node_id)
        await cluster.all_have([b"one", b"two"])


async def test_a_leader_that_is_cut_off_steps_down_and_its_proposals_are_lost(
    autojump_clock: MockClock,
) -> None:
    async with network() as cluster:
        leader = await cluster.leader()
        cluster.cut_off.add(leader.node_id)
        with pytest.raises(ProposalLostError):
            await leader.quorum.propose(b"nobody hears it")
        assert not leader.quorum.is_leader
        assert leader.quorum.leader_id is None
        successor = await cluster.leader(after=leader.quorum.epoch)
        await successor.quorum.propose(b"heard")
        cluster.cut_off.clear()
        await cluster.all_have([b"heard"])
        assert leader.quorum.leader_id == successor.node_id


async def test_a_handover_is_quick_and_loses_nothing(autojump_clock: MockClock) -> None:
    async with network() as cluster:
        leader = await cluster.leader()
        await leader.quorum.propose(b"one")
        assert await leader.quorum.transfer_leadership()
        successor = await cluster.leader(after=leader.quorum.epoch - 1, within_s=0.2)
        assert successor is not leader
        assert await leader.quorum.transfer_leadership()  # it no longer leads
        target = next(node for node in cluster.followers() if node is not leader)
        assert await successor.quorum.transfer_leadership(target.node_id)
        assert await cluster.leader(after=successor.quorum.epoch - 1) is target
        await target.quorum.propose(b"two")
        await cluster.all_have([b"one", b"two"])


async def test_a_handover_without_a_successor_is_given_up(autojump_clock: MockClock) -> None:
    async with network() as cluster:
        leader = await cluster.leader()
        for node in cluster.followers():
            cluster.cut_off.add(node.node_id)
        target = cluster.followers()[0]
        assert not await leader.quorum.transfer_leadership(target.node_id)


async def test_an_observer_gets_decisions_and_does_not_vote(
    autojump_clock: MockClock,
) -> None:
    async with network(1, 2, 3, 7) as cluster:
        leader = await cluster.leader()
        await leader.quorum.propose(b"one")
        await cluster.all_have([b"one"])
        await trio.sleep(1)
        statistics = leader.quorum.statistics()
        assert statistics.leader_id == leader.node_id
        assert statistics.high_watermark == leader.quorum.committed_index + 1
        assert [one.node_id for one in statistics.voters] == [1, 2, 3]
        assert [one.node_id for one in statistics.observers] == [7]
        for one in (*statistics.voters, *statistics.observers):
            assert one.log_end_offset == statistics.high_watermark
            assert one.heard_ago_s is not None
            assert one.heard_ago_s < 0.5
            assert one.caught_up_ago_s is not None
            assert one.caught_up_ago_s < 0.5
        observer = cluster.nodes[7]
        assert observer.quorum.statistics().voters[0].log_end_offset == -1
        observer.kill()
        await trio.sleep(0.1)
        assert not leader.quorum.statistics().observers


async def test_the_log_is_replaced_by_a_snapshot_for_late_nodes(
    autojump_clock: MockClock,
) -> None:
    async with network() as cluster:
        await cluster.leader()
        cluster.snapshot_size_bytes_min = 2000
        for node in cluster.living():
            node.kill()
        await cluster.start(1, 2)
        leader = await cluster.leader()
        payloads = [b"%030d" % number for number in range(100)]
        for payload in payloads:
            await leader.quorum.propose(payload)
        size_bytes = leader.disk.file_size("quorum/quorum.log")
        await cluster.start(3)
        late = cluster.nodes[3]
        await cluster.all_have(payloads)
        assert late.snapshots_loaded > 0
        for node in cluster.living():
            node.kill()
        await cluster.start(1, 2, 3)
        assert late.applied[:10] == payloads[:10]
        await (await cluster.leader()).quorum.propose(b"more")
        await cluster.all_have([*payloads, b"more"])
        assert size_bytes < 3 * sum(map(len, payloads)) + 4000


async def test_waiting_until_an_index_is_applied(autojump_clock: MockClock) -> None:
    async with network() as cluster:
        leader = await cluster.leader()
        index = await leader.quorum.propose(b"one")
        follower = cluster.followers()[0]
        await follower.quorum.wait_applied(index)
        assert follower.applied == [b"one"]
        with trio.move_on_after(5) as scope:
            await follower.quorum.wait_applied(index + 1)
        assert scope.cancelled_caught


async def test_slow_applying_does_not_silence_a_leader(autojump_clock: MockClock) -> None:
    async with network() as cluster:
        leader = await cluster.leader()
        epoch = leader.quorum.epoch
        leader.may_apply = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leader.quorum.propose, b"slow")
            await trio.sleep(10)
            assert leader.applied == []
            assert leader.quorum.is_leader
            assert leader.quorum.epoch == epoch
            leader.may_apply.set()
        await cluster.all_have([b"slow"])


async def test_a_committed_proposal_is_not_lost_when_its_leader_steps_down_before_applying(
    autojump_clock: MockClock,
) -> None:
    async with network() as cluster:
        leader = await cluster.leader()
        leader.may_apply = trio.Event()
        indexes: list[int] = []

        async def propose() -> None:
            indexes.append(await leader.quorum.propose(b"slow"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(propose)
            await trio.sleep(1)
            cluster.cut_off.add(leader.node_id)
            await cluster.leader(after=leader.quorum.epoch)
            await trio.sleep(5)
            assert not leader.quorum.is_leader
            leader.may_apply.set()
        assert indexes == leader.indexes


async def test_excess_messages_are_dropped(autojump_clock: MockClock) -> None:
    async with network() as cluster:
        leader = await cluster.leader()
        await leader.quorum.propose(b"one")
        message = decode_message([6, 0])
        for _ in range(EVENTS_MAX + 10):
            leader.quorum.receive(99, message)
        with pytest.raises(NotControllerError):
            await leader.quorum.propose(b"two")
        await wait_all_tasks_blocked()
        await leader.quorum.propose(b"three")


async def recorded(cluster: Network) -> Node:
    """A leader, whose log has the voters and more than one follower."""
    leader = await cluster.leader()
    await leader.quorum.propose(b"first")
    addresses = tuple((node_id, f"host{node_id}", 9) for node_id in sorted(cluster.nodes))
    await leader.quorum.change_voters(lambda token: RecordVoters(addresses, token))
    return leader


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_deposed_leader_finds_out_whether_voters_have_changed(
    autojump_clock: MockClock, arrives: bool
) -> None:
    async with network() as cluster:
        leader = await recorded(cluster)
        voters = leader.quorum.recorded_voters
        assert voters is not None
        directory_id = voters.directory_of(leader.node_id)
        outcome: list[Exception | None] = []

        async def remove() -> None:
            try:
                await leader.quorum.change_voters(
                    lambda token: RemoveVoter(leader.node_id, directory_id, token)
                )
                outcome.append(None)
            except NotControllerError as error:
                outcome.append(error)

        async with trio.open_nursery() as nursery:
            if not arrives:
                cluster.cut_off = {leader.node_id}
            nursery.start_soon(remove)
            if arrives:
                await trio.sleep(1.5 * DELAY_S)  # the change has come to the followers
                cluster.cut_off = {leader.node_id}
            successor = await cluster.leader(after=leader.quorum.epoch)
            assert outcome == []
            cluster.cut_off = set()
        left = successor.quorum.voter_ids
        assert left == set(cluster.nodes) - ({leader.node_id} if arrives else set())
        assert [error is None for error in outcome] == [arrives]


async def test_a_change_of_the_voters_is_lost_when_the_quorum_ends(
    autojump_clock: MockClock,
) -> None:
    async with network() as cluster:
        leader = await recorded(cluster)
        voters = leader.quorum.recorded_voters
        assert voters is not None
        directory_id = voters.directory_of(leader.node_id)
        cluster.cut_off = {leader.node_id}
        caught: list[ProposalLostError] = []

        async def remove() -> None:
            try:
                await leader.quorum.change_voters(
                    lambda token: RemoveVoter(leader.node_id, directory_id, token)
                )
            except ProposalLostError as error:
                caught.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(remove)
            await cluster.leader(after=leader.quorum.epoch)
            leader.kill()
        assert len(caught) == 1
