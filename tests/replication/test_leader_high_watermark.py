"""When records are committed: the leader's high watermark."""

from typing import Any

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.replication import (
    AdvanceHighWatermark,
    BeginEpoch,
    EligibleBrokers,
    LeaderReplica,
    ReplicaFetchRefused,
)
from tests.replication.leaders import broker_epochs, leader_of, pending, proposal, settled


def test_the_only_replica_commits_what_it_appends() -> None:
    leader = LeaderReplica(
        node_id=1,
        replicas=(1,),
        isr=(1,),
        leader_epoch=5,
        partition_epoch=7,
        log_end_offset=100,
        high_watermark=90,
        brokers=EligibleBrokers({}),
        min_insync=2,
        lag_time_max_s=30,
        now=0.0,
    )
    assert leader.begin(0.0) == [BeginEpoch(5, 100), AdvanceHighWatermark(100)]
    assert leader.appended(103, 0.0) == [AdvanceHighWatermark(103)]
    assert leader.high_watermark == leader.log_end_offset == 103
    assert leader.appended(103, 0.0) == []
    assert leader.deadline() is None
    assert leader.expire(0.0) == []


def test_a_record_is_committed_when_every_member_has_it() -> None:
    leader = settled()
    assert leader.appended(110, 0.0) == []
    assert leader.follower_fetched(2, 12, 110, 0, 0.1) == []
    assert leader.follower_fetched(3, 13, 105, 0, 0.1) == [AdvanceHighWatermark(105)]
    assert leader.follower_fetched(3, 13, 110, 0, 0.2) == [AdvanceHighWatermark(110)]


def test_a_new_leader_waits_until_its_isr_reached_its_epoch() -> None:
    """What its predecessor committed ended anywhere up to its log's end."""
    leader = leader_of(isr=(1, 2))
    assert leader.follower_fetched(2, 12, 95, 0, 0.1) == []
    assert not leader.is_high_watermark_known
    assert leader.follower_fetched(2, 12, 100, 0, 0.2) == [AdvanceHighWatermark(100)]
    assert leader.is_high_watermark_known


def test_a_leader_without_its_followers_fetches_commits_nothing() -> None:
    leader = leader_of()
    assert leader.appended(110, 0.1) == []
    assert leader.follower_fetched(2, 12, 110, 0, 0.2) == []
    assert leader.high_watermark == 90


def test_nothing_is_committed_below_min_insync_replicas() -> None:
    """KIP-966: a replica that left such an ISR still has everything that is committed."""
    leader = settled(isr=(1,), min_insync=1)
    leader.configure(min_insync=2, lag_time_max_s=30, is_sync_counted=False, now=0.1)
    assert leader.is_under_min_isr
    assert leader.appended(110, 0.1) == []
    leader.follower_fetched(2, 12, 110, 0, 0.2)
    assert leader.high_watermark == 100
    assert pending(leader) == proposal(1, 2)
    assert leader.image_changed((1, 2, 3), (1, 2), 5, 8, 0.3) == [AdvanceHighWatermark(110)]
    assert not leader.is_under_min_isr


def test_min_insync_replicas_cannot_be_more_than_there_are_replicas() -> None:
    leader = leader_of(replicas=(1, 2), isr=(1, 2), min_insync=3)
    assert leader.effective_min_insync == 2
    assert leader.follower_fetched(2, 12, 100, 0, 0.1) == [AdvanceHighWatermark(100)]


def test_a_lower_min_insync_commits_at_once() -> None:
    leader = leader_of(isr=(1,), min_insync=2)
    assert leader.high_watermark == 90
    effects = leader.configure(min_insync=1, lag_time_max_s=30, is_sync_counted=False, now=1.0)
    assert effects == [AdvanceHighWatermark(100)]


def test_the_high_watermark_waits_for_a_replica_that_is_about_to_join() -> None:
    """Behind a busy leader it would never reach a high watermark that is the leader's own end."""
    leader = settled(isr=(1, 2))
    leader.follower_fetched(3, 13, 90, 0, 0.0)
    leader.appended(110, 0.1)
    assert leader.follower_fetched(2, 12, 110, 0, 0.2) == [AdvanceHighWatermark(110)]
    leader.follower_fetched(3, 13, 100, 0, 0.2)  # all that the leader had at its last fetch
    leader.appended(120, 0.3)
    assert leader.follower_fetched(2, 12, 120, 0, 0.4) == []
    assert leader.follower_fetched(3, 13, 110, 0, 0.5) == [proposal(1, 2, 3)]
    assert leader.follower_fetched(3, 13, 120, 0, 0.6) == [AdvanceHighWatermark(120)]


def joining_follower(**changes: Any) -> LeaderReplica:
    """Broker 3 is not in sync, but has kept up: at 2.0 it had what the leader had at 0.0."""
    leader = settled(isr=(1,), **changes)
    leader.follower_fetched(3, 13, 90, 0, 0.0)
    assert leader.appended(110, 1.0) == [AdvanceHighWatermark(110)]
    assert leader.follower_fetched(3, 13, 100, 0, 2.0) == []
    assert leader.appended(120, 3.0) == []
    return leader


def test_it_waits_no_longer_than_the_lag_time() -> None:
    leader = joining_follower()
    assert leader.deadline() == 30.0
    assert leader.expire(29.9) == []
    assert leader.expire(30.0) == [AdvanceHighWatermark(120)]
    assert leader.appended(130, 31.0) == [AdvanceHighWatermark(130)]


def test_it_does_not_wait_for_a_replica_that_was_fenced() -> None:
    brokers = EligibleBrokers(broker_epochs(1, 2, 3))
    leader = joining_follower(brokers=brokers)
    brokers.epochs = broker_epochs(1, 2)
    assert leader.eligibility_changed(3.1) == [AdvanceHighWatermark(120)]


def test_it_waits_no_longer_than_the_lag_time_while_the_isr_changes() -> None:
    leader = joining_follower()
    leader.follower_fetched(2, 12, 120, 0, 4.0)
    assert pending(leader) == proposal(1, 2)
    leader.isr_refused(pending(leader), ErrorCode.NOT_CONTROLLER, 29.98)
    assert leader.deadline() == 30.0
    assert leader.expire(30.0) == [AdvanceHighWatermark(120)]


def test_a_replica_of_a_new_incarnation_holds_nothing_back() -> None:
    """It was in sync a moment ago, and may have everything to fetch again."""
    brokers = EligibleBrokers(broker_epochs(1, 2, 3))
    leader = settled(brokers=brokers)
    brokers.epochs = broker_epochs(1, 2) | {3: 23}
    leader.image_changed((1, 2, 3), (1, 2), 5, 8, 0.1)
    leader.follower_fetched(3, 23, 0, 0, 0.2)
    leader.appended(110, 0.3)
    assert leader.follower_fetched(2, 12, 110, 0, 0.4) == [AdvanceHighWatermark(110)]


def test_a_proposed_member_holds_it_back_until_it_is_known_that_it_did_not_join() -> None:
    brokers = EligibleBrokers(broker_epochs(1, 2, 3))
    leader = settled(isr=(1, 2), brokers=brokers)
    leader.follower_fetched(3, 13, 100, 0, 0.2)
    assert pending(leader) == proposal(1, 2, 3)
    leader.appended(110, 0.3)
    assert leader.follower_fetched(2, 12, 110, 0, 0.3) == []
    # The controller fenced broker 3 and gave the partition a new epoch, so the proposal is dead.
    brokers.epochs = broker_epochs(1, 2)
    assert leader.image_changed((1, 2, 3), (1, 2), 5, 8, 0.4) == [AdvanceHighWatermark(110)]


def test_it_never_goes_back() -> None:
    leader = settled()
    assert leader.follower_fetched(2, 12, 95, 0, 0.1) == [proposal(1, 3)]
    assert leader.high_watermark == 100
    leader.image_changed((1, 2, 3), (1, 3), 5, 8, 0.2)
    leader.image_changed((1, 2, 3), (1, 3), 6, 9, 0.3)
    assert leader.high_watermark == 100


def test_own_records_count_when_they_are_on_the_disk() -> None:
    """flush.messages=1: an acknowledged record is on the disk of every member."""
    leader = leader_of(isr=(1, 2), is_sync_counted=True, synced_offset=100)
    assert leader.follower_fetched(2, 12, 100, 0, 0.1) == [AdvanceHighWatermark(100)]
    leader.appended(110, 0.2)
    assert leader.follower_fetched(2, 12, 110, 0, 0.3) == []
    assert leader.synced(105) == [AdvanceHighWatermark(105)]
    assert leader.synced(103) == []
    assert leader.synced(110) == [AdvanceHighWatermark(110)]


def test_the_only_replica_waits_for_its_disk_too() -> None:
    leader = leader_of(replicas=(1,), isr=(1,), is_sync_counted=True, synced_offset=100)
    assert leader.appended(110, 0.2) == []
    assert leader.synced(110) == [AdvanceHighWatermark(110)]
    leader.configure(min_insync=1, lag_time_max_s=30, is_sync_counted=False, now=0.3)
    assert leader.appended(120, 0.4) == [AdvanceHighWatermark(120)]
    assert leader.synced(120) == []


def test_records_begin_to_need_the_disk() -> None:
    leader = settled(isr=(1,))
    leader.configure(min_insync=1, lag_time_max_s=30, is_sync_counted=True, now=0.1)
    assert leader.appended(110, 0.2) == []
    assert leader.synced(110) == [AdvanceHighWatermark(110)]


def test_records_that_need_no_disk_any_more_are_committed() -> None:
    leader = leader_of(replicas=(1,), isr=(1,), is_sync_counted=True, synced_offset=100)
    leader.appended(110, 0.2)
    effects = leader.configure(min_insync=1, lag_time_max_s=30, is_sync_counted=False, now=0.3)
    assert effects == [AdvanceHighWatermark(110)]


# --- which fetches count ------------------------------------------------------------------------


def test_a_stranger_is_refused() -> None:
    leader = settled()
    with pytest.raises(ReplicaFetchRefused, match="broker 4 is not one of the replicas") as caught:
        leader.follower_fetched(4, 14, 100, 0, 0.1)
    assert caught.value.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_older_incarnation_of_a_follower_is_refused() -> None:
    """KIP-903: what it had may be lost since."""
    brokers = EligibleBrokers(broker_epochs(1, 2, 3))
    leader = settled(brokers=brokers)
    brokers.epochs = broker_epochs(1, 2) | {3: 23}
    with pytest.raises(ReplicaFetchRefused, match="with broker epoch 13, its epoch is now 23"):
        leader.follower_fetched(3, 13, 100, 0, 0.1)


def test_an_older_incarnation_is_refused_after_a_fetch_of_a_newer_one() -> None:
    """Even if the metadata log has not told of the newer one yet."""
    leader = settled()
    leader.follower_fetched(3, 23, 100, 0, 0.1)
    with pytest.raises(ReplicaFetchRefused, match="with broker epoch 13, its epoch is now 23"):
        leader.follower_fetched(3, 13, 100, 0, 0.2)


# --- what the shell asks ------------------------------------------------------------------------


def test_the_low_watermark_is_that_of_live_replicas() -> None:
    brokers = EligibleBrokers(broker_epochs(1, 2))
    leader = leader_of(brokers=brokers)
    leader.follower_fetched(2, 12, 100, 15, 0.1)
    leader.follower_fetched(3, 13, 100, 10, 0.1)
    assert leader.low_watermark(20) == 15
    assert leader.low_watermark(12) == 12
    brokers.epochs = broker_epochs(1, 2, 3)
    assert leader.low_watermark(20) == 10


def test_what_is_known_of_a_follower() -> None:
    leader = leader_of()
    leader.follower_fetched(2, 12, 97, 15, 0.1)
    progress = leader.progress_of(2)
    assert progress is not None
    assert (progress.fetch_offset, progress.log_start_offset, progress.broker_epoch) == (97, 15, 12)
    assert leader.progress_of(1) is None
