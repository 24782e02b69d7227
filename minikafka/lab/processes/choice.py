"""Which cells real processes run for a claim: they take seconds each, so the fewest that decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ..claims import Claim, Where
from ..matrix import Cell, TopicMode

_ACKS1: Final = "p.acks1-retries_t.r3-m2_c.none_f."
_ALL: Final = "p.acksall-retries_t.r3-m2_c.none_f."
_IDEM: Final = "p.acksall-idem-fly5_t.r3-m2_c.none_f."
_SYNCED: Final = "p.acksall-idem-fly5_t.r3-m2-fsync_c.none_f."
_READ: Final = "p.acksall-idem-fly5_t.r3-m2_c."
_TX: Final = "p.acksall-tx-fly5_t.r3-m2_c."
_BETWEEN: Final = "_f.consumer-killed-between"
_PAUSED: Final = "_f.consumer-paused"

QUICK: Final[Mapping[str, tuple[str, ...]]] = {
    "acks0-at-most-once": ("p.acks0_t.r3-m2_c.none_f.request-lost",),
    "acks1-loses-with-the-leader": (_ACKS1 + "leader-killed-after-ack",),
    "acks1-exactly-once": (_ACKS1 + "leader-killed-after-ack", _ACKS1 + "ack-lost"),
    "acksall-exactly-once": (_ALL + "ack-lost",),
    "acksall-at-least-once": (_ALL + "ack-lost", _ALL + "leader-killed-after-append"),
    "no-retries-at-most-once": (
        "p.acksall_t.r3-m2_c.none_f.ack-lost",
        "p.acksall_t.r3-m2_c.none_f.leader-killed-after-append",
    ),
    "idempotent-exactly-once-in-the-log": tuple(
        _IDEM + fault
        for fault in (
            "request-lost",
            "ack-lost",
            "leader-killed-before-append",
            "leader-killed-after-append",
            "leader-killed-after-ack",
            "leader-isolated",
            "leader-paused",
            "isr-shrunk-leader-lost",
            "power-loss-one",
        )
    ),
    "sequence-survives-the-leader": (
        _IDEM + "leader-killed-after-append",
        _IDEM + "leader-killed-after-ack",
    ),
    "too-few-replicas-are-refused": (_IDEM + "isr-shrunk-leader-lost",),
    "min-insync-1-loses": ("p.acksall-retries_t.r3-m1_c.none_f.isr-shrunk-leader-lost",),
    "retries-reorder": ("p.acksall-retries-fly5_t.r3-m2_c.none_f.request-lost",),
    "one-in-flight-keeps-the-order": (_ALL + "request-lost", _ALL + "leader-killed-after-append"),
    "a-killed-process-loses-nothing": (
        "p.acksall-retries_t.r1-m1_c.none_f.leader-killed-after-ack",
    ),
    "power-loss-of-all-loses": (_IDEM + "power-loss-all",),
    "fsync-survives-power-loss": (_SYNCED + "power-loss-one", _SYNCED + "power-loss-all"),
    "clock-jumps-do-not-matter": (_IDEM + "clock-jump",),
    "rolling-restart-is-invisible": (_IDEM + "rolling-restart",),
    "auto-commit-loses": (_READ + "auto" + _BETWEEN,),
    "auto-commit-repeats": (_READ + "auto-on-poll" + _BETWEEN,),
    "commit-before-at-most-once": (_READ + "before" + _BETWEEN,),
    "commit-after-at-least-once": (_READ + "after-sync" + _BETWEEN,),
    "async-commits-repeat": (_READ + "after-async" + _BETWEEN,),
    "offsets-with-results-exactly-once": (
        _READ + "with-result" + _BETWEEN,
        _READ + "with-result" + _PAUSED,
    ),
    "upsert-looks-exactly-once": (_READ + "upsert" + _BETWEEN,),
    "transactions-exactly-once": (
        _READ + "transaction-rc" + _BETWEEN,
        _READ + "transaction-rc" + _PAUSED,
    ),
    "read-committed-is-whole": (
        _TX + "after-sync-rc_f.none",
        _TX + "after-sync-rc_f.producer-killed",
    ),
    "read-uncommitted-sees-aborted": (_TX + "after-sync_f.none",),
    "only-replicated-records-are-read": (_READ + "after-sync_f.leader-killed-after-ack",),
    "two-phase-commit": (_READ + "two-phase" + _BETWEEN,),
    "spark-sink": (_READ + "spark-sink" + _BETWEEN,),
    "acksall-latency": (
        _IDEM + "none",
        "p.acks1-retries-fly5_t.r3-m2_c.none_f.none",
    ),
    "commit-latency": (_READ + "after-sync_f.none",),
}


def representative(claim: Claim, *, is_quick: bool = True) -> tuple[Cell, ...]:
    """The cells that decide a claim; none if real processes cannot.

    Args:
        claim: one of `minikafka.lab.claims.CLAIMS`.
        is_quick: the fewest. All claims together have about forty, which takes a minute and a half
            on our brokers; otherwise all of a claim's cells with three replicas of which two have
            to be in sync, and those of other topics where it says nothing about these.
    """
    names = QUICK.get(claim.id, ())
    if is_quick or not names:
        return tuple(map(Cell.parse, names))
    every = dict.fromkeys(cell for where in _places(claim) for cell in where.cells())
    usual = tuple(cell for cell in every if cell.topic == TopicMode())
    return usual or tuple(every)


def _places(claim: Claim) -> Iterator[Where]:
    yield from (one.where for one in claim.says)
    if claim.costs is not None:
        yield claim.costs.of
        if claim.costs.over is not None:
            yield claim.costs.over
