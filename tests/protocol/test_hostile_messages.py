"""Hostile bytes are decoded or refused with one kind of error, and cost little either way."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator

import pytest

from minikafka.protocol.exceptions import MalformedMessageError
from tests.protocol.instances import Case, every_case, random_message, seeded
from tests.protocol.plain_writer import write_plainly

CASES = every_case()
FLEXIBLE_CASES = [case for case in CASES if case.flexible]

MEMORY_PER_BYTE = 64
MEMORY_ALWAYS = 16 * 1024
"""Bounds of the peak memory in bytes: per byte of the frame, and in addition to that."""


@pytest.fixture(scope="module")
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def read_measured(case: Case, frame: bytes) -> int:
    """Decode arbitrary bytes; returns the peak memory in bytes.

    Read three times, because other threads of the process allocate, too.
    """
    return min(_read_measured(case, frame) for _ in range(3))


def _read_measured(case: Case, frame: bytes) -> int:
    complaint = case.message.__name__
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        case.message.decode(case.version, frame)
    except MalformedMessageError as error:
        complaint = str(error)
    peak = tracemalloc.get_traced_memory()[1]
    assert complaint.startswith(case.message.__name__)
    assert len(complaint) < 500
    return peak - before


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_truncated_message_is_malformed(case: Case) -> None:
    wire = random_message(case, seeded(case), items_max=2).encode_to_bytes(case.version)
    for size in range(len(wire)):
        with pytest.raises(MalformedMessageError):
            case.message.decode(case.version, wire[:size])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_damaged_bytes_are_malformed_or_another_message_at_bounded_cost(
    case: Case, traced: None
) -> None:
    source = seeded(case)
    wire = random_message(case, source).encode_to_bytes(case.version)
    case.message.decode(case.version, wire)  # compiles the decoder, which is not measured
    for _ in range(25):
        damaged = _damaged(wire, source)
        assert read_measured(case, damaged) <= MEMORY_PER_BYTE * len(damaged) + MEMORY_ALWAYS


def _damaged(wire: bytes, source: random.Random) -> bytes:
    damaged = bytearray(wire)
    for _ in range(source.choice([1, 1, 2, 8])):
        at = source.randint(0, len(damaged))
        match source.randrange(5):
            case 0:
                damaged[at : at + 1] = source.randbytes(1)
            case 1:
                damaged[at : at + 1] = source.choice([b"\x00", b"\x7f", b"\x80", b"\xff"])
            case 2:  # the largest and the smallest lengths, fixed and variable
                damaged[at : at + 4] = source.choice(
                    [b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x0f"]
                )
            case 3:
                damaged[at:at] = source.randbytes(source.randint(1, 5))
            case _:
                del damaged[at : at + source.randint(1, 5)]
    return bytes(damaged)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_huge_count_anywhere_allocates_nothing(case: Case, traced: None) -> None:
    wire = random_message(case, seeded(case), items_max=1).encode_to_bytes(case.version)
    case.message.decode(case.version, wire)
    for at in range(len(wire)):
        for count in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f"):
            frame = wire[:at] + count + wire[at + 4 :]
            assert read_measured(case, frame) <= MEMORY_PER_BYTE * len(frame) + MEMORY_ALWAYS


@pytest.mark.parametrize("case", FLEXIBLE_CASES, ids=str)
def test_undeclared_tags_are_skipped_in_every_struct(case: Case) -> None:
    source = seeded(case, "unknown tags")
    for _ in range(5):
        message = random_message(case, source)
        wire = write_plainly(case, message, tags_from=source)
        assert case.message.decode(case.version, wire) == message


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_plain_encoder_and_the_generated_one_agree(case: Case) -> None:
    message = random_message(case, seeded(case, "slow"))
    assert message.encode_to_bytes(case.version) == write_plainly(case, message)
