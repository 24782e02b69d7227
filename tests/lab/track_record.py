"""Defects of minikafka that were found, and the test that finds each again in the code before.

    python -m tests.lab.track_record            run all of them (some minutes)
    python -m tests.lab.track_record NAME ...   some of them
    python -m tests.lab.track_record --table    the table of docs/lab.md

For each one the commit before its mend is checked out into a temporary directory, together with the
tests of the mend. They have to fail there, and to pass at the mend itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_PLUGINS = ("pytest_trio.plugin", "pytest_timeout", "_hypothesis_pytestplugin")
_PACKAGES = (".", "client", "spark_connector")
_FAILED = 1


class Defect(NamedTuple):
    """Something that was wrong.

    Attributes:
        name: for the command line.
        what: was wrong, and what it cost.
        found_by: who or what found it.
        mend: the commit that mended it.
        tests: what fails before and passes since, as pytest or a module with its arguments.
    """

    name: str
    what: str
    found_by: str
    mend: str
    tests: tuple[str, ...]


DEFECTS = (
    Defect(
        "coordinator-answers-from-memory",
        "An isolated transaction coordinator confirmed a commit that only its successor knew: an "
        "acknowledged commit was lost.",
        "simulation of whole brokers, seed 566",
        "71af25c",
        ("tests/broker/handlers/test_transactions.py",),
    ),
    Defect(
        "coordinator-goes-on-loading",
        "A deposed coordinator went on loading and answered for what it no longer owned.",
        "simulation of whole brokers, seed 1264",
        "462f3d3",
        ("tests/broker/test_coordinator_loads.py",),
    ),
    Defect(
        "success-told-again-too-early",
        "The answer to a repeated EndTxn came before the commit was committed again: an "
        "acknowledged commit was lost, or a transaction stayed open for ever.",
        "adversarial review",
        "e3dca5c",
        ("tests/coordinator/transaction/test_transactions.py",),
    ),
    Defect(
        "cancelled-offsets-are-committed",
        "Offsets whose sending was cancelled were committed with the next transaction: records "
        "were skipped.",
        "adversarial review",
        "483b627",
        ("tests/client/patterns/test_at_least_once.py",),
    ),
    Defect(
        "late-fetches-are-handed-out",
        "Answers to fetches of an earlier assignment were handed out after a rebalance: records "
        "came twice or not at all.",
        "adversarial review",
        "d8cc97e",
        ("tests/client/core/test_partitions_that_come_back.py",),
    ),
    Defect(
        "deposed-leader-serves",
        "A leader that no controller had confirmed for a session went on serving: acks=1 records "
        "were lost, consumers waited for records that were elsewhere.",
        "attack from outside: leader that reaches only its clients",
        "2e90f46",
        ("tests/broker/test_cut_off_leaders.py",),
    ),
    Defect(
        "absurd-epochs",
        "One vote request with epoch 2^63-1 ended the metadata quorum for good.",
        "attack from outside: hostile messages",
        "3909e8b",
        ("tests/consensus/test_elections.py", "tests/consensus/test_durable.py"),
    ),
    Defect(
        "poison-batches",
        "A batch whose payload could not be what its header claimed was stored, and stopped every "
        "consumer behind it.",
        "make fuzz",
        "3115f0c",
        ("tests/storage/test_validation.py",),
    ),
    Defect(
        "emptied-segments",
        "A segment that was emptied or removed while the broker was stopped was taken for the end "
        "of the log: acknowledged records were gone.",
        "attack from outside: damaged files",
        "c722ba6",
        ("tests/storage/test_missing_files.py",),
    ),
    Defect(
        "members-who-die-together",
        "Of members whose sessions ended at the same moment only the first was removed: nobody "
        "read the partitions of the others.",
        "simulation of groups",
        "f581baa",
        ("tests/coordinator/group/consumer/test_heartbeats.py",),
    ),
    Defect(
        "old-snappy",
        "Snappy streams that Java's readers refuse were stored.",
        "make fuzz with validate.records=all",
        "97586a7",
        ("tests/protocol/records/test_payload_bounds.py",),
    ),
)


def _git(*words: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True)


def _run_tests(tree: Path, tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    plugins = [word for plugin in _PLUGINS for word in ("-p", plugin)]
    command = [sys.executable, "-m", "pytest", "-q", "-x", *plugins, "-p", "no:cacheprovider"]
    path = os.pathsep.join(str(tree / package) for package in _PACKAGES)
    environment = os.environ | {
        "PYTHONPATH": path,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        [*command, *tests], cwd=tree, env=environment, check=False, capture_output=True, text=True
    )


def find_again(defect: Defect, folder: Path) -> str | None:
    """Why a defect is not found again; None if it is."""
    tree = folder / defect.name
    _git("worktree", "add", "--detach", str(tree), f"{defect.mend}^")
    try:
        subprocess.run(
            ["git", "-C", str(tree), "checkout", "-q", defect.mend, "--", "tests"], check=True
        )
        before = _run_tests(tree, defect.tests)
        if before.returncode != _FAILED:
            return f"before the mend pytest ends with {before.returncode}:\n{before.stdout[-1500:]}"
        subprocess.run(["git", "-C", str(tree), "checkout", "-qf", defect.mend], check=True)
        after = _run_tests(tree, defect.tests)
        if after.returncode:
            return f"at the mend pytest ends with {after.returncode}:\n{after.stdout[-1500:]}"
    finally:
        _git("worktree", "remove", "--force", str(tree))
    return None


def table() -> str:
    """As in docs/lab.md."""
    lines = ["| defect | found by | mended in | `python -m tests.lab.track_record` |"]
    lines.append("|---|---|---|---|")
    lines += [f"| {one.what} | {one.found_by} | {one.mend} | `{one.name}` |" for one in DEFECTS]
    return "\n".join(lines)


def main() -> int:
    names = sys.argv[1:]
    if names == ["--table"]:
        sys.stdout.write(table() + "\n")
        return 0
    unknown = set(names) - {one.name for one in DEFECTS}
    if unknown:
        sys.stderr.write(f"no defect is called {', '.join(sorted(unknown))}\n")
        return 2
    failures = 0
    with tempfile.TemporaryDirectory(prefix="track-record-") as folder:
        for defect in DEFECTS:
            if names and defect.name not in names:
                continue
            why = find_again(defect, Path(folder))
            failures += why is not None
            sys.stdout.write(f"{defect.name}: {'found again' if why is None else why}\n")
            sys.stdout.flush()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
