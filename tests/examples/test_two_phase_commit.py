"""A bank that is killed with SIGKILL at each of its steps: its books and Kafka say the same."""

from __future__ import annotations

import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from examples.two_phase_commit.bank import SIDES, STEPS, Books, FencedError, work
from examples.two_phase_commit.run import DEATHS, announced, make_topic, run_bank
from minikafka import testing

TRANSFERS = 3


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """A broker that allows two-phase commit."""
    settings = {"transaction.two.phase.commit.enable": "true"}
    with testing.broker(settings, directory=tmp_path_factory.mktemp("bank")) as broker:
        yield broker.bootstrap


def test_it_is_killed_at_every_step() -> None:
    places = {each.partition(":")[0] for deaths in DEATHS for each in deaths}
    assert places == set(STEPS)


@pytest.mark.parametrize("deaths", DEATHS, ids="-then-".join)
def test_a_transfer_is_booked_and_announced_or_neither(
    bootstrap: str, tmp_path: Path, deaths: tuple[str, ...]
) -> None:
    topic, database = tmp_path.name, tmp_path / "bank.db"
    make_topic(bootstrap, topic)
    first_step = deaths[0].partition(":")[0]
    transfers = 2 if STEPS.index(first_step) >= STEPS.index("decided") else 1
    for die_at in deaths:
        assert run_bank(bootstrap, topic, database, TRANSFERS, die_at) == -signal.SIGKILL
        booked = Books(database).transfers()
        assert booked == list(range(transfers))
        for seen in announced(bootstrap, topic, is_settled=False):
            assert seen == booked[: len(seen)]
    assert run_bank(bootstrap, topic, database, TRANSFERS, "never") == 0
    everything = list(range(TRANSFERS))
    assert Books(database).transfers() == everything
    assert announced(bootstrap, topic) == [everything] * len(SIDES)


def test_a_zombie_cannot_book_what_its_successor_has_aborted(
    bootstrap: str, tmp_path: Path
) -> None:
    topic, database = tmp_path.name, tmp_path / "bank.db"
    make_topic(bootstrap, topic)

    def succeed(step: str) -> None:
        if step == "prepared":
            work(bootstrap, topic, Books(database), 0, lambda _: None)

    with pytest.raises(FencedError):
        work(bootstrap, topic, Books(database), TRANSFERS, succeed)
    assert Books(database).transfers() == []
    assert run_bank(bootstrap, topic, database, TRANSFERS, "never") == 0
    everything = list(range(TRANSFERS))
    assert announced(bootstrap, topic) == [everything] * len(SIDES)
