"""Judges a history: every anomaly in it, and whether Kafka allows it.

    report = check_history(history)
    assert report.is_good, report

A million operations take some ten seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from .anomalies import Anomaly, Finding, Findings
from .cycles import check_cycles
from .operations import History, Operation, Outcome, Poll
from .process_order import check_process_order
from .version_order import Observed


class Report(NamedTuple):
    """What was found.

    Attributes:
        findings: the first ones of each kind.
        counts: how many there are of each kind; the second member says whether they are allowed.
        operations: how many were judged.
        committed_writes: values that committed operations sent.
        values_read: different values that successful polls returned.
    """

    findings: tuple[Finding, ...]
    counts: Mapping[tuple[Anomaly, bool], int]
    operations: int
    committed_writes: int
    values_read: int

    @property
    def is_good(self) -> bool:
        """Whether nothing was found that is not allowed."""
        return not self.broken

    @property
    def broken(self) -> dict[Anomaly, int]:
        """How often each promise was broken."""
        return {anomaly: n for (anomaly, is_allowed), n in self.counts.items() if not is_allowed}

    @property
    def allowed(self) -> dict[Anomaly, int]:
        """How often something happened that is allowed."""
        return {anomaly: n for (anomaly, is_allowed), n in self.counts.items() if is_allowed}

    def __str__(self) -> str:
        counted = f"{self.operations} operations, {self.committed_writes} committed writes"
        lines = [f"{counted}, {self.values_read} values read"]
        for (anomaly, is_allowed), count in self.counts.items():
            lines.append(f"{anomaly.value}{' (allowed)' if is_allowed else ''}: {count}")
        lines += [str(finding) for finding in self.findings if not finding.is_allowed]
        return "\n".join(lines)


def check_history(
    history: History, *, allowed: Collection[Anomaly] = (), is_caught_up: bool = True
) -> Report:
    """Judge a history.

    Args:
        history: what happened.
        allowed: what this workload may show beyond what every workload may: `LOST_WRITE` and
            `UNSEEN` with acks=1, `DUPLICATE` and `NONMONOTONIC_SEND` without idempotence.
        is_caught_up: at its end a process has read each key from the beginning to the end.

    Raises:
        ValueError: a value was sent twice to a key.
    """
    findings = Findings(allowed)
    observed = Observed(history)
    observed.check(findings, is_caught_up=is_caught_up)
    _check_reads(observed, findings)
    check_process_order(observed, findings)
    check_cycles(observed, findings)
    return Report(
        findings=tuple(findings.kept),
        counts=dict(findings.counts),
        operations=sum(isinstance(event, Operation) for event in history),
        committed_writes=sum(
            number in observed.committed
            for writers in observed.writers.values()
            for number in writers.values()
        ),
        values_read=sum(map(len, observed.seen.values())),
    )


def _check_reads(observed: Observed, findings: Findings) -> None:
    """G1a, and values out of nowhere."""
    suspects = {
        key: {value for value in seen if not _is_committed(observed, key, value)}
        for key, seen in observed.seen.items()
    }
    if not any(suspects.values()):
        return
    for number, event in enumerate(observed.history):
        if not isinstance(event, Operation) or event.outcome is not Outcome.OK:
            continue
        for action in event.actions:
            if not isinstance(action, Poll):
                continue
            for key, records in action.records.items():
                for offset, value in records:
                    if value not in suspects.get(key, ()):
                        continue
                    writer = observed.writer_of(key, value)
                    text = f"{value!r} at offset {offset}"
                    if writer is None:
                        findings.add(Anomaly.UNWRITTEN_READ, key, [number], text)
                    else:
                        findings.add(Anomaly.ABORTED_READ, key, [writer, number], text)


def _is_committed(observed: Observed, key: tuple[str, int], value: int | str | bytes) -> bool:
    writer = observed.writer_of(key, value)
    return writer is not None and writer in observed.committed
