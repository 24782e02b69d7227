"""What replicas do about damaged logs."""

from minikafka.replication import cut_before_leading
from minikafka.storage.repair import QuarantinedRange
from tests.replication.histories import PlainLog


def test_the_only_replica_keeps_what_is_behind_the_damage() -> None:
    log = PlainLog([1] * 9)
    log.quarantined = (QuarantinedRange(4, 5),)
    assert cut_before_leading(log, 1) is None


def test_one_of_several_replicas_cuts_before_it_leads() -> None:
    log = PlainLog([1] * 9)
    assert cut_before_leading(log, 3) is None
    log.quarantined = (QuarantinedRange(4, 5), QuarantinedRange(7, 8))
    assert cut_before_leading(log, 3) == 4
