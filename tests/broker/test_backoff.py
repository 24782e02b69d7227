"""Pauses between attempts."""

import random

from minikafka.broker.system.backoff import JITTER, Backoff


def test_pauses_double_up_to_the_maximum_and_reset_after_a_success() -> None:
    backoff = Backoff(0.1, 0.5)
    assert [backoff.next_pause() for _ in range(5)] == [0.1, 0.2, 0.4, 0.5, 0.5]
    backoff.reset()
    assert backoff.next_pause() == 0.1


def test_pauses_are_random() -> None:
    backoff = Backoff(1.0, 1.0, random.Random(1).random)
    pauses = [backoff.next_pause() for _ in range(100)]
    assert len(set(pauses)) == 100
    assert all(1 - JITTER <= pause <= 1 for pause in pauses)
