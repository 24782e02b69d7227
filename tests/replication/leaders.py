"""A leader for tests: brokers 1, 2 and 3 with broker epochs 11, 12 and 13; broker 1 leads."""

from typing import Any

from minikafka import replication
from minikafka.protocol.errors import ErrorCode

LAG_TIME_MAX_S = 30.0
LEADER_EPOCH = 5
PARTITION_EPOCH = 7


def broker_epochs(*broker_ids: int) -> dict[int, int]:
    """Brokers that may be in an ISR."""
    return {broker_id: broker_id + 10 for broker_id in broker_ids}


def leader_of(**changes: Any) -> replication.LeaderReplica:
    """A leader in epoch 5 whose log ends at 100 and whose high watermark is 90; it has begun."""
    arguments: dict[str, Any] = {
        "node_id": 1,
        "replicas": (1, 2, 3),
        "isr": (1, 2, 3),
        "leader_epoch": LEADER_EPOCH,
        "partition_epoch": PARTITION_EPOCH,
        "log_end_offset": 100,
        "high_watermark": 90,
        "brokers": replication.EligibleBrokers(broker_epochs(1, 2, 3)),
        "min_insync": 1,
        "lag_time_max_s": LAG_TIME_MAX_S,
        "now": 0.0,
    }
    leader = replication.LeaderReplica(**(arguments | changes))
    leader.begin(0.0)
    return leader


def settled(isr: tuple[int, ...] = (1, 2, 3), **changes: Any) -> replication.LeaderReplica:
    """The same after everybody in the ISR has fetched up to its end, at time 0."""
    leader = leader_of(isr=isr, **changes)
    for broker_id in isr[1:]:
        leader.follower_fetched(broker_id, broker_id + 10, 100, 0, 0.0)
    assert leader.high_watermark == 100
    return leader


def proposal(
    *broker_ids: int, partition_epoch: int = PARTITION_EPOCH, leader: int = replication.NO_LEADER
) -> replication.ProposeIsr:
    members = [replication.IsrMember(broker_id, broker_id + 10) for broker_id in broker_ids]
    return replication.ProposeIsr(LEADER_EPOCH, partition_epoch, tuple(members), leader)


def pending(leader: replication.LeaderReplica) -> replication.ProposeIsr:
    """The proposal that is on its way."""
    assert isinstance(leader.isr, replication.Pending)
    return leader.isr.proposal


REFUSALS = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""Answers that do not tell whether the proposal was, or will be, accepted."""
