"""Bugs of Apache Kafka's replication, by their tickets: here they are told as they happened."""

from minikafka.protocol.errors import ErrorCode
from minikafka.replication import Committed, Pending
from minikafka.storage.leader_epochs import EpochEndOffset
from tests.replication.leaders import REFUSALS
from tests.replication.partition_of_three import LAG_TIME_MAX_S, PartitionOfThree


def test_kafka_1211_truncating_to_the_high_watermark_loses_a_committed_record() -> None:
    """A follower knows of a commit only with its next fetch.

    It restarts before that; then the leader dies, and the follower leads: the committed record has
    to be there still.
    """
    partition = PartitionOfThree([], [], [])
    partition.elect(1, 0, (1, 2))
    partition.write(2)
    partition.fetch(2)
    partition.fetch(2)
    assert partition.leader.high_watermark == 2
    partition.logs[2].high_watermark = 1  # what its checkpoint says after the restart
    partition.followers.clear()
    partition.hear_of(2, 1, 0)
    partition.fetch(2)
    assert partition.logs[2].epochs == [0, 0]
    partition.elect(2, 1, (2,))
    assert partition.leader.high_watermark == 2


def test_kafka_1211_two_leaders_in_a_row_leave_no_divergence() -> None:
    """KIP-101's second case: both restart, and each had a record the other had not."""
    partition = PartitionOfThree([0, 0], [0], [0], high_watermarks=(1, 1, 1))
    partition.elect(2, 1, (2,))
    partition.write()
    partition.catch_up(1)
    assert partition.logs[1].epochs == partition.logs[2].epochs == [0, 1]


def test_kafka_6361_fast_leader_failover_leads_to_log_divergence() -> None:
    """The follower has an epoch that the leader never heard of, and the leader one, too (KIP-279).

    Then one answer is not enough to find where they part.
    """
    partition = PartitionOfThree([0, 0, 1, 1], [0, 0, 0, 2], [])
    partition.elect(2, 3, (2,))
    rounds = 0
    while partition.fetch(1).diverging is not None:
        rounds += 1
    partition.catch_up(1)
    assert partition.logs[1].epochs == partition.logs[2].epochs
    assert rounds == 1
    deeper = PartitionOfThree([0, 1, 1, 1, 4], [0, 0, 0, 2, 3], [])
    deeper.elect(1, 5, (1,))
    rounds = 0
    while deeper.fetch(2).diverging is not None:
        rounds += 1
    deeper.catch_up(2)
    assert deeper.logs[2].epochs == deeper.logs[1].epochs
    assert rounds == 2


def test_kafka_7128_a_lagging_follower_joins_before_the_epochs_start() -> None:
    """The new leader's high watermark is behind what was committed.

    A follower that has reached it may lack committed records. If it joined and were elected, they
    would be gone.
    """
    partition = PartitionOfThree([0] * 5, [0] * 5, [0] * 3, high_watermarks=(5, 2, 2))
    partition.elect(2, 1, (2, 1))
    assert partition.leader.high_watermark == 2
    partition.fetch(3, size=1)
    partition.fetch(3, size=1)
    assert partition.logs[3].log_end_offset == 5
    assert partition.proposals == []
    partition.fetch(3)
    assert partition.proposals[0].broker_ids == (2, 1, 3)


def test_kafka_7164_a_missed_epoch_is_a_missed_truncation() -> None:
    """The follower is busy while epochs go by, and hears of the last one only.

    It has to find out where it parts from that leader before it takes anything from it.
    """
    partition = PartitionOfThree([0, 0, 0], [0, 0], [0, 0], high_watermarks=(2, 2, 2))
    partition.elect(2, 1, (2, 3), unaware=(1,))
    partition.write()
    partition.elect(3, 2, (3,), unaware=(1, 2))
    partition.write(2)
    partition.hear_of(1, 3, 2)
    answer = partition.fetch(1)
    assert answer.diverging == EpochEndOffset(0, 2)
    partition.catch_up(1)
    assert partition.logs[1].epochs == [0, 0, 2, 2]


def test_kafka_7415_the_leader_knows_its_epoch_before_it_has_written_in_it() -> None:
    """A follower that was leader in between asks for its own epoch.

    "Unknown" would make it keep, or cut, too much.
    """
    partition = PartitionOfThree([0, 0, 1], [0, 0], [0, 0], high_watermarks=(2, 2, 2))
    partition.elect(2, 2, (2, 3))
    answer = partition.fetch(1)
    assert answer.diverging == EpochEndOffset(0, 2)
    assert partition.logs[1].epochs == [0, 0]
    assert partition.logs[1].high_watermark == 2


def test_kafka_7786_the_answer_of_a_stale_leader_truncates_nothing() -> None:
    """The answer was on its way when the next leader was elected, which has those records."""
    partition = PartitionOfThree([0, 0, 0], [0, 0, 0], [0])
    partition.elect(3, 1, (3,))
    asked = partition.followers[2].position()
    assert asked is not None
    late = partition.answer(2, asked)
    assert late.diverging is not None
    partition.elect(1, 2, (1,))
    partition.take(2, asked, late)
    assert partition.logs[2].epochs == [0, 0, 0]


def test_kafka_9491_a_full_truncation_takes_the_high_watermark_along() -> None:
    """The leader's retention was faster than the follower, which restarts at the leader's start.

    Elected at once, it must not have a high watermark below its own log.
    """
    partition = PartitionOfThree([0] * 9, [0, 0], [], high_watermarks=(9, 2, 0))
    log = partition.logs[1]
    del log.epochs[:6]
    log.log_start_offset = 6
    partition.elect(1, 0, (1,))
    partition.fetch(2)
    assert (partition.logs[2].log_start_offset, partition.logs[2].high_watermark) == (6, 6)
    partition.elect(2, 1, (2,))
    assert partition.leader.high_watermark == 6


def test_kafka_12460_no_in_sync_replica_truncates_below_the_high_watermark() -> None:
    """After any clean election, an in-sync replica keeps everything that was committed."""
    partition = PartitionOfThree([0] * 6, [0] * 4, [0] * 5, high_watermarks=(4, 3, 2))
    for leader, follower in ((2, 3), (3, 2), (1, 2), (1, 3)):
        copy = PartitionOfThree(*(list(log.epochs) for log in partition.logs.values()))
        copy.elect(leader, 1, (leader, follower))
        copy.write()
        copy.catch_up(follower)
        assert copy.logs[follower].epochs[:4] == [0] * 4


def test_kafka_13091_the_high_watermark_moves_when_the_isr_shrinks() -> None:
    """Nobody fetches and nothing is appended any more: the decision itself has to move it."""
    partition = PartitionOfThree([], [], [])
    partition.elect(1, 0, (1, 2, 3))
    partition.write(3)
    partition.fetch(2)
    partition.fetch(2)
    assert partition.leader.high_watermark == 0
    partition.now = LAG_TIME_MAX_S
    partition.carry_out(partition.leader.expire(partition.now))
    assert partition.leader.high_watermark == 0
    partition.decide_isr(1, 2)
    assert partition.leader.high_watermark == 3


def test_kafka_14144_a_proposal_that_was_taken_is_sent_again() -> None:
    """The answer was lost, and the second copy is refused, as the partition epoch has moved on.

    That must not be taken for "the ISR is as it was".
    """
    partition = PartitionOfThree([0], [0], [0])
    partition.elect(1, 1, (1, 2))
    partition.catch_up(2, 3)
    (proposal,) = partition.proposals
    leader = partition.leader
    for error_code in REFUSALS:
        leader.isr_refused(proposal, error_code, partition.now)
        assert isinstance(leader.isr, Pending)
        assert leader.isr.maximal == (1, 2, 3)
    partition.write()
    partition.catch_up(2)
    assert leader.high_watermark == 1
    partition.decide_isr(1, 2, 3)
    assert leader.isr == Committed((1, 2, 3))
    partition.catch_up(3)
    assert leader.high_watermark == 2


def test_kafka_14154_a_zombie_controller_fences_a_leader_it_does_not_know_yet() -> None:
    """FENCED_LEADER_EPOCH from a controller that is one no more: the leader must not give up."""
    partition = PartitionOfThree([0], [0], [0])
    partition.elect(1, 1, (1, 2))
    partition.catch_up(2, 3)
    (proposal,) = partition.proposals
    partition.leader.isr_refused(proposal, ErrorCode.FENCED_LEADER_EPOCH, 0.0)
    deadline = partition.leader.deadline()
    assert deadline is not None
    assert partition.leader.expire(deadline) == [proposal]


def test_kafka_14704_the_high_watermark_is_raised_before_the_log_is_cut() -> None:
    """The diverging answer carries the leader's high watermark, which is above where they part.

    For a moment the follower would show records that were never committed.
    """
    partition = PartitionOfThree([0, 0, 1, 1, 1], [0, 0, 2, 2, 2], [])
    partition.elect(2, 3, (2,))
    assert partition.leader.high_watermark == 5
    answer = partition.fetch(1)
    assert answer.diverging is not None
    assert answer.high_watermark == 5
    assert partition.logs[1].high_watermark == 0
    assert partition.logs[1].epochs == [0, 0]
    partition.catch_up(1)
    assert partition.logs[1].high_watermark == 5


def test_kip_903_a_follower_whose_fetch_is_older_than_its_registration_stays_out() -> None:
    """It restarted and lost its disk's cache; what is known of it is about its earlier life."""
    partition = PartitionOfThree([0], [0], [0])
    partition.elect(1, 1, (1, 2))
    partition.catch_up(2, 3)
    partition.decide_isr(1, 2)
    partition.proposals.clear()
    partition.brokers.epochs = {1: 11, 2: 12, 3: 23}
    partition.carry_out(partition.leader.eligibility_changed(partition.now))
    assert partition.proposals == []


def test_an_unclean_leader_without_the_followers_records() -> None:
    """The follower has more than the leader, all of it committed once: it follows, and says so."""
    partition = PartitionOfThree([0, 0], [0, 0, 0, 1], [], high_watermarks=(2, 4, 0))
    partition.elect(1, 2, (1,))
    asked = partition.followers[2].position()
    assert asked is not None
    answer = partition.answer(2, asked)
    effects = partition.followers[2].answered(asked, answer, 0.0)
    assert effects == [(2, True)]
    partition.logs[2].truncate_to(2)
    partition.write()
    partition.catch_up(2)
    assert partition.logs[2].epochs == [0, 0, 2]


def test_a_deposed_leader_commits_nothing() -> None:
    """It was paused; its follower in sync follows another leader by now, and answers none of it."""
    partition = PartitionOfThree([], [], [])
    zombie = partition.elect(1, 0, (1, 2))
    partition.catch_up(2)
    partition.elect(2, 1, (2,), unaware=(1,))
    partition.write()
    assert partition.leader.high_watermark == 1
    assert zombie.appended(1, 1.0) == []
    assert zombie.high_watermark == 0
    zombie.expire(1.0 + LAG_TIME_MAX_S)
    assert isinstance(zombie.isr, Pending)  # it asks for another ISR, and will be refused
    assert zombie.high_watermark == 0
