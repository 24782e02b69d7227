"""Guards that are broken on purpose: the lab has to turn red, and name a claim.

python -m tests.lab.mutants                 all of them
python -m tests.lab.mutants --only WORDS    those with these words in their name
python -m tests.lab.mutants --missing       those that mutants.json does not have
python -m tests.lab.mutants --table         none, but write the table again

Each one that is looked for is written into mutants.json, and the table in docs/lab.md is made of
it. Seeds are taken evenly: seed 0 of every cell in which a claim excludes something, then seed 1,
and so on; `FIRST` says in which cells it is best to begin. The exit code is 1 if a mutant was not
noticed that is not in `ELSEWHERE`.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from minikafka.lab.claims import CLAIMS, Bound, Claim
from minikafka.lab.matrix import Cell, Fault
from minikafka.lab.results import CellResult, Verdict, judge
from minikafka.lab.runner import run_cell
from minikafka.lab.scenario import Scenario
from minikafka.lab.simulation.engine import SimulationEngine
from tests.lab.simulation import coordinator_mutants
from tests.simulation.brokers import mutants as broker_mutants
from tests.simulation.cluster import mutants as cluster_mutants
from tests.simulation.groups import mutants as group_mutants
from tests.simulation.groups.streams_mutants import STREAMS_MUTANTS
from tests.simulation.kit.mutants import Mutant
from tests.simulation.raft import mutants as raft_mutants
from tests.simulation.shares import mutants as share_mutants
from tests.simulation.transactions import mutants as transaction_mutants

FIRST_SEEDS_MAX: Final = 50
"""Of each cell of `FIRST`: as many as `make lab` takes."""
SEEDS_MAX: Final = 10
"""Of each cell, for a mutant that is not noticed; `make lab` takes five times as many."""
RECORDED: Final = Path(__file__).with_name("mutants.json")
TABLE: Final = Path(__file__).parents[2] / "docs" / "lab.md"
BEGIN, END = "<!-- mutants: begin -->\n", "<!-- mutants: end -->\n"
PROMISES = tuple(claim for claim in CLAIMS if claim.expected)
ENGINE = SimulationEngine()


class Red(NamedTuple):
    """How the lab noticed a mutant.

    Attributes:
        claim: the id of the narrowest one that is stamped false.
        example: the token of a run that shows it.
        why: what decided, in words.
        seeds: how many the cell that shows it had by then.
    """

    claim: str
    example: str
    why: str
    seeds: int


class Elsewhere(NamedTuple):
    """Why the lab does not notice a mutant, and what does.

    Attributes:
        why: what the lab promises nothing about, or does not run.
        caught_by: the test's file.
    """

    why: str
    caught_by: str


LOOKED_FOR: Mapping[str, Sequence[Mutant]] = {
    "replication": tuple(dict.fromkeys(cluster_mutants.MUTANTS)),
    "transactions": transaction_mutants.MUTANTS,
    "groups": (*group_mutants.MUTANTS, *coordinator_mutants.MUTANTS),
}
"""By what they break: code that the lab's simulation runs."""
_NOT_RUN = "the simulation does not run this code: "
OTHERS: Mapping[str, tuple[Sequence[Mutant], Elsewhere]] = {
    "metadata quorum": (
        raft_mutants.MUTANTS,
        Elsewhere(
            f"{_NOT_RUN}its controller is one that never fails",
            "tests/simulation/raft/test_raft_mutants.py",
        ),
    ),
    "whole brokers": (
        tuple(one for one in broker_mutants.MUTANTS if one not in cluster_mutants.MUTANTS),
        Elsewhere(
            f"{_NOT_RUN}it has no brokers' shells",
            "tests/simulation/brokers/test_broker_seeds.py",
        ),
    ),
    "streams groups": (
        STREAMS_MUTANTS,
        Elsewhere(
            "no claim is about streams groups", "tests/simulation/groups/test_group_seeds.py"
        ),
    ),
    "share groups": (
        share_mutants.MUTANTS,
        Elsewhere("no claim is about share groups", "tests/simulation/shares/test_share_seeds.py"),
    ),
}
"""By what they break: what the lab's simulation does not run."""
_CLUSTER = "tests/simulation/cluster/test_cluster_seeds.py"
_TRANSACTIONS = "tests/simulation/transactions/test_transaction_seeds.py"
_GROUPS = "tests/simulation/groups/test_group_seeds.py"
ELSEWHERE: Mapping[str, Elsewhere] = {
    "replication: followers join below the epoch's start": Elsewhere(
        "gap: no strike brings a follower back exactly between the high watermark and the epoch's "
        "start",
        _CLUSTER,
    ),
    "replication: stale broker epochs may join": Elsewhere(
        "gap: no strike restarts a follower while its old life is being let into the ISR", _CLUSTER
    ),
    "replication: a leader counts what it has not synced": Elsewhere(
        "no claim is about a synced topic with one replica; with three the followers have synced",
        _CLUSTER,
    ),
    "replication: an empty voter votes": Elsewhere(
        f"{_NOT_RUN}its controller is one that never fails", _CLUSTER
    ),
    "replication: every shutdown is called clean": Elsewhere(
        "gap: 420 runs that lose the power of one node did not show it", _CLUSTER
    ),
    "replication: recovery trusts what was written behind a cut": Elsewhere(
        "gap: it needs a cut and then a power loss, and a cell has one kind of fault", _CLUSTER
    ),
    "transactions: a marker is appended whatever its epoch is": Elsewhere(
        "gap: 270 runs with zombies and one seed of every cell did not show it", _TRANSACTIONS
    ),
    "transactions: a coordinator that was cut off answers from memory": Elsewhere(
        "gap: the lab's coordinators are killed, not cut off", _TRANSACTIONS
    ),
    "groups: a partition is free before its member says that it has given it up": Elsewhere(
        "gap: 93 runs with rebalances and one seed of every cell did not show it", _GROUPS
    ),
    "groups: heartbeats are answered before they are committed": Elsewhere(
        "gap: 124 runs that kill a coordinator did not show it", _GROUPS
    ),
    "groups: a new coordinator starts no timers": Elsewhere(
        "gap: no run kills both a coordinator and a member", _GROUPS
    ),
    "groups: topics that change are not noticed": Elsewhere(
        "no claim is about topics that get more partitions", _GROUPS
    ),
    "groups: two members may have one instance id": Elsewhere(
        "no claim is about static members", _GROUPS
    ),
    "groups: expressions are not matched again by the next coordinator": Elsewhere(
        "no claim is about subscriptions by an expression", _GROUPS
    ),
}
"""By group and name: what the simulation runs, and the lab does not notice. A *gap* breaks a
promise of the lab, which is too weak to see it."""
FIRST: Mapping[str, tuple[Fault, ...]] = {
    "commits are accepted in any epoch": (Fault.CONSUMER_PAUSED,),
    "offsets in transactions are accepted from any member": (Fault.CONSUMER_PAUSED,),
    "followers truncate to the high watermark": (Fault.LEADER_KILLED_AFTER_ACK,),
    "the committed ISR is enough for the high watermark": (Fault.FOLLOWER_ISOLATED,),
    "followers keep damaged batches": (Fault.POWER_LOSS_ONE,),
}
"""Where a search by the hundred would be needed: the faults to begin with."""


@cache
def promised() -> dict[Cell, list[Claim]]:
    """The cells for which claims that are true say that something never happens, in any order."""
    found: dict[Cell, list[Claim]] = {}
    for claim in sorted(PROMISES, key=_width):
        excluded = {
            cell: None
            for says in claim.says
            if says.bound is Bound.NEVER
            for cell in says.where.cells()
            if ENGINE.why_not(cell) is None
        }
        for cell in excluded:
            found.setdefault(cell, []).append(claim)
    cells = list(found)
    Random(1).shuffle(cells)
    return {cell: found[cell] for cell in cells}


def _width(claim: Claim) -> int:
    return sum(1 for says in claim.says for _ in says.where.cells())


def judged(cell: Cell, claims: Sequence[Claim], seeds: range) -> tuple[str, str, str] | None:
    """Run seeds of a cell; the first claim that they show to be false, the run, and why."""
    found: dict[Cell, CellResult] = {cell: run_cell(ENGINE, cell, seeds)}
    for claim in claims:
        judgement = judge(claim, found)
        if judgement.verdict is Verdict.FALSE:
            assert judgement.example is not None
            return claim.id, judgement.example, judgement.why
    return None


def look_for(mutant: Mutant, seeds_max: int = SEEDS_MAX) -> Red | None:
    """Run seeds of all cells until the lab is red; None if it stays green."""
    cells, faults = promised(), FIRST.get(mutant.name)
    first = {cell: claims for cell, claims in cells.items() if faults and cell.fault in faults}
    rest = {cell: claims for cell, claims in cells.items() if cell not in first}
    with mutant.applied():
        for some, seeds in ((first, FIRST_SEEDS_MAX), (rest, seeds_max)):
            for seed in range(seeds):
                for cell, claims in some.items():
                    false = judged(cell, claims, range(seed, seed + 1))
                    if false is not None:
                        return Red(*false, seed + 1)
    return None


def is_still_red(mutant: Mutant, red: Red, seeds: int) -> bool:
    """Whether a few seeds of the cell that showed it, from its own on, turn a claim red."""
    scenario = Scenario.parse(red.example)
    claims = promised()[scenario.cell]
    with mutant.applied():
        return any(
            judged(scenario.cell, claims, range(seed, seed + 1)) is not None
            for seed in range(scenario.seed, scenario.seed + seeds)
        )


# --- what is recorded -----------------------------------------------------------------------------


def named() -> dict[str, Mutant]:
    """All that the lab is to notice, by group and name."""
    return {
        f"{group}: {mutant.name}": mutant
        for group, mutants in LOOKED_FOR.items()
        for mutant in mutants
    }


def recorded() -> dict[str, Red]:
    """What was noticed when the command ran last, by group and name."""
    found: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text())
    return {name: Red(**red) for name, red in found.items()}


def table() -> str:
    """Both tables of docs/lab.md."""
    reds = recorded()
    lines = ["| defect | claim that turns red | what shows it | seeds |", "|---|---|---|---|"]
    lines += (
        f"| {name} | `{reds[name].claim}` | {_words(reds[name].why)} | {reds[name].seeds} |"
        for name in named()
        if name in reds
    )
    lines += ["", "| defect | why the lab stays green | what notices it |", "|---|---|---|"]
    lines += (
        f"| {name} | {ELSEWHERE[name].why} | `{ELSEWHERE[name].caught_by}` |"
        for name in named()
        if name in ELSEWHERE
    )
    lines += (
        f"| {group}: {mutant.name} | {OTHERS[group][1].why} | `{OTHERS[group][1].caught_by}` |"
        for group in OTHERS
        for mutant in OTHERS[group][0]
    )
    return "\n".join(lines) + "\n"


def _words(why: str) -> str:
    """A count, or the invariant's name: the rest depends on the seed."""
    broken = re.match(r"an invariant broke: ([^:]+):", why)
    return f"the invariant *{broken[1]}*" if broken else re.sub(r" in \d.*", "", why)


def written_table() -> str:
    """What docs/lab.md says."""
    return TABLE.read_text().partition(BEGIN)[2].partition(END)[0]


def write_table() -> None:
    before, _, rest = TABLE.read_text().partition(BEGIN)
    TABLE.write_text(before + BEGIN + table() + END + rest.partition(END)[2])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX)
    options = parser.parse_args()
    logging.disable()
    reds = {name: red for name, red in recorded().items() if name in named()}
    missed = 0
    for name, mutant in named().items():
        if options.table or options.only not in name or name in ELSEWHERE:
            continue
        if options.missing and name in reds:
            continue
        reds.pop(name, None)
        red = look_for(mutant, options.seeds)
        if red is None:
            missed += 1
        else:
            reds[name] = red
        words = "NOT NOTICED" if red is None else f"{red.seeds} seeds, {red.claim}: {red.why}"
        sys.stdout.write(f"{name}: {words}\n")
        sys.stdout.flush()
        record(reds)
    write_table()
    return 1 if missed else 0


def record(reds: Mapping[str, Red]) -> None:
    """Write mutants.json."""
    ordered = {name: reds[name]._asdict() for name in named() if name in reds}
    RECORDED.write_text(json.dumps(ordered, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
