"""Repeated kill -9 under load: the next broker keeps every promise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.faults.bystanders import Churner, Committer, Deleter, Reader
from tests.faults.campaign import Campaign, Worker, rounds, with_seed
from tests.faults.writers import IdempotentWriter, KeyWriter, PlainWriter, read_all
from tests.kit.wire import Wire

_ROUNDS = 4
TOPICS: Mapping[str, tuple[int, Mapping[str, str]]] = {
    "kept": (4, {}),
    "compacted": (2, {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01"}),
    "retained": (2, {"retention_bytes": "20000"}),
    "trimmed": (1, {}),
}


def workers(campaign: Campaign) -> list[Worker]:
    places = [(topic, number) for topic, (count, _) in TOPICS.items() for number in range(count)]
    return [
        *(IdempotentWriter(campaign, "kept", number // 2, number) for number in range(4)),
        *(PlainWriter(campaign, "kept", number) for number in (1, 2, 3)),
        *(KeyWriter(campaign, "compacted", number // 2, number) for number in range(3)),
        IdempotentWriter(campaign, "compacted", 1, 9, is_kept=False),
        *(
            IdempotentWriter(campaign, "retained", number, number, is_kept=False)
            for number in range(2)
        ),
        IdempotentWriter(campaign, "trimmed", 0, is_kept=False),
        Deleter(campaign, "trimmed", 0),
        Churner(campaign, "churned"),
        Churner(campaign, "churned-too"),
        Committer(campaign, "group-a", "kept"),
        Committer(campaign, "group-b", "kept"),
        Reader(campaign, 0, places),
        Reader(campaign, 1, places),
    ]


def knock(address: str) -> None:
    """Connect many times to a broker that is stopped, and give up."""
    for _ in range(50):
        Wire(address).socket.close()


@with_seed
@pytest.mark.slow
@pytest.mark.timeout(36_000)
def test_kills_break_no_promise(tmp_path: Path, seed: int) -> None:
    campaign = Campaign(tmp_path, seed)
    try:
        with campaign.broker, Wire(campaign.broker.bootstrap) as link:
            for topic, (partitions, settings) in TOPICS.items():
                link.create_topic(topic, partitions, settings)
        campaign.start(workers(campaign))
        for number in range(rounds(_ROUNDS)):
            campaign.work(campaign.dice.randint(5, 40))
            if number % 2:
                campaign.pause(lambda: knock(campaign.broker.bootstrap))
            if number % 4 == 3:
                campaign.restart()
            else:
                campaign.crash()
        campaign.work(10)
        campaign.end()
        with Wire(campaign.broker.bootstrap) as link:
            for number in range(TOPICS["kept"][0]):
                records = read_all(campaign, link, "kept", number)
                campaign.sightings.expect(("kept", number), [one.offset for one in records])
        assert campaign.broker.stop() == 0
    finally:
        campaign.close()
