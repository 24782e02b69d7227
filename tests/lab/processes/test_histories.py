"""What a run's producer was told, judged by the checker of histories."""

from __future__ import annotations

from minikafka.lab.ledger import Fate, Ledger
from minikafka.lab.matrix import Cell
from minikafka.lab.processes.histories import check_run
from minikafka.testing.history.anomalies import Anomaly

IDEMPOTENT = Cell.parse("p.acksall-idem-fly5_t.r3-m2_c.none_f.none")
AT_LEAST_ONCE = Cell.parse("p.acksall-retries_t.r3-m2_c.none_f.none")
TRANSACTIONAL = Cell.parse("p.acksall-tx-fly5_t.r3-m2_c.none_f.none")


def ledger_of(*fates: Fate) -> Ledger:
    ledger = Ledger(sent=[("producer-0", f"r{number}") for number in range(len(fates))])
    ledger.fates = {f"r{number}": fate for number, fate in enumerate(fates)}
    return ledger


def test_a_log_that_has_everything_once_is_good() -> None:
    ledger = ledger_of(Fate.TRUSTED, Fate.UNKNOWN, Fate.TRUSTED)
    assert check_run(IDEMPOTENT, ledger, [[(0, "r0"), (1, "r2")]]).is_good


def test_a_lost_value_is_found() -> None:
    report = check_run(IDEMPOTENT, ledger_of(Fate.TRUSTED, Fate.TRUSTED), [[(0, "r1")]])
    assert set(report.broken) & {Anomaly.LOST_WRITE, Anomaly.UNSEEN}


def test_a_repeated_value_is_found_where_it_must_not_be() -> None:
    ledger, log = ledger_of(Fate.TRUSTED), [[(0, "r0"), (1, "r0")]]
    assert Anomaly.DUPLICATE in check_run(IDEMPOTENT, ledger, log).broken
    assert Anomaly.DUPLICATE in check_run(AT_LEAST_ONCE, ledger, log).allowed


def test_a_value_of_an_aborted_transaction_is_found() -> None:
    ledger = ledger_of(Fate.REFUSED, Fate.REFUSED)
    ledger.transactions = [["r0", "r1"]]
    assert Anomaly.ABORTED_READ in check_run(TRANSACTIONAL, ledger, [[(0, "r0")]]).broken
