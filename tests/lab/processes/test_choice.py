"""The cells that real processes run for each claim."""

from __future__ import annotations

import pytest

from minikafka.lab.claims import CLAIMS, Claim
from minikafka.lab.matrix import Cell
from minikafka.lab.processes.choice import QUICK, representative


def where(claim: Claim) -> list[Cell]:
    places = [one.where for one in claim.says]
    if claim.costs is not None:
        places += [one for one in (claim.costs.of, claim.costs.over) if one is not None]
    return [cell for place in places for cell in place.cells()]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_a_claim_is_decided_by_cells_of_its_own(claim: Claim) -> None:
    chosen = representative(claim)
    assert chosen
    assert set(chosen) <= set(where(claim))


def test_there_are_few_of_them() -> None:
    assert len({name for names in QUICK.values() for name in names}) <= 44
    assert set(QUICK) <= {claim.id for claim in CLAIMS}


def test_a_full_list_has_more() -> None:
    claim = next(one for one in CLAIMS if one.id == "idempotent-exactly-once-in-the-log")
    assert set(representative(claim)) < set(representative(claim, is_quick=False))
