"""Runs a broker with a guard that is broken: ``broken_broker.py NAME COMMAND...``, as a prefix."""

from __future__ import annotations

import runpy
import sys
from typing import Final
from unittest.mock import patch

from minikafka.broker.replicas.partition import Partition
from minikafka.storage.log import Log
from minikafka.storage.producer_state import ProducerStateManager
from minikafka.storage.transactions import TransactionState
from tests.simulation.kit.mutants import always
from tests.simulation.replication_mutants import acknowledge_at_once


def high_watermark(log: Log) -> int:
    return log.high_watermark


BROKEN: Final[dict[str, tuple[type, str, object]]] = {
    "repeats-what-it-knows": (ProducerStateManager, "check", always(None)),
    "acknowledges-at-once": (Partition, "wait_for_commit", acknowledge_at_once),
    "shows-open-transactions": (Log, "last_stable_offset", property(high_watermark)),
    "forgets-what-was-aborted": (TransactionState, "aborted_between", always([])),
}

if __name__ == "__main__":
    name, _python, _dash_m, module, *arguments = sys.argv[1:]
    sys.argv = [module, *arguments]
    with patch.object(*BROKEN[name]):
        runpy.run_module(module, run_name="__main__", alter_sys=True)
