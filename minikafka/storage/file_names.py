"""The names of the files in a partition's directory.

    <offset>.log                      a segment, see `segment`
    <offset>.index                    where its batches are, see `index`
    <offset>.timeindex                where its timestamps are, see `index`
    <offset>.txnindex                 its aborted transactions, see `aborted_index`
    <offset>.snapshot                 the producers as of that offset, see `producer_snapshots`
    <offset>.cut                      the log was cut there, see `cut_marker`
    <first>-<next>.swap               a compaction that was committed but not finished
    <first>-<next>.quarantine         the damaged bytes of these offsets, see `salvage`
    <first>-<next>-kept.quarantine    the same, once the leader has accepted the loss
    <offset>-tail<n>.quarantine       a damaged end that was cut off
    leader-epoch-checkpoint           see `leader_epochs`
    partition.metadata                see `partition_identity`
    *.deleted *.cleaned *.rewrite *.tmp    removed when the log is opened

As in Kafka, offsets are written with 20 digits, so that names sort as offsets do.
"""

from typing import Final

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
CUT_SUFFIX: Final = ".cut"
SWAP_SUFFIX: Final = ".swap"
QUARANTINE_SUFFIX: Final = ".quarantine"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
REWRITE_SUFFIX: Final = ".rewrite"
TEMPORARY_SUFFIX: Final = ".tmp"

INDEX_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
"""Files that are of no use without their segment, and can be made again from it."""

_OFFSET_DIGITS: Final = 20


def offset_name(offset: int) -> str:
    """The stem of a file that is named after an offset."""
    return f"{offset:0{_OFFSET_DIGITS}d}"


def range_name(first_offset: int, next_offset: int) -> str:
    """The stem of a file that is named after [first_offset, next_offset)."""
    return f"{offset_name(first_offset)}-{offset_name(next_offset)}"


def split_name(name: str) -> tuple[tuple[int, ...], str]:
    """The offsets that a file is named after, and its suffix; no offsets for any other name."""
    stem, dot, suffix = name.rpartition(".")
    parts = stem.split("-")
    if all(len(part) == _OFFSET_DIGITS and part.isascii() and part.isdigit() for part in parts):
        return tuple(map(int, parts)), dot + suffix
    return (), dot + suffix
