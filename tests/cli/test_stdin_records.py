"""Lines from stdin, whatever stdin is."""

import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from minikafka.cli import stdin_records
from minikafka.cli.failure import CommandFailed
from minikafka.cli.stdin_records import LineParser, StdinLines
from minikafka_client import ProducerRecord


def all_lines(lines: StdinLines) -> list[bytes]:
    async def read() -> list[bytes]:
        found: list[bytes] = []
        while (block := await lines.read_lines()) is not None:
            assert block
            found += block
        return found

    return trio.run(read)


class Stream(io.TextIOWrapper):
    """A stdin without a descriptor that gives a few bytes at a time."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__(io.BytesIO())
        self._pieces = iter(pieces)

    @property
    def buffer(self) -> "Stream":  # type: ignore[override]  # only `read` is used
        return self

    def read(self, size: int | None = None, /) -> bytes:  # type: ignore[override]  # as a buffer's
        return next(self._pieces, b"")


@given(st.lists(st.binary(min_size=1, max_size=8).map(lambda piece: piece.replace(b"a", b"\n"))))
def test_lines_do_not_depend_on_block_boundaries(pieces: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", Stream(pieces))
        lines = StdinLines()
        whole = b"".join(pieces)
        expected = whole.split(b"\n")
        if not expected[-1]:
            del expected[-1]
        assert all_lines(lines) == expected
        assert lines.bytes_read == len(whole)
        assert lines.size_bytes is None


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The end of a pipe that writes to stdin."""
    reader, writer = os.pipe()
    with open(reader, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield writer


def test_a_pipe_is_waited_for_without_blocking_others(pipe: int) -> None:
    async def write_late() -> None:
        lines = StdinLines()
        async with trio.open_nursery() as nursery:

            async def expect() -> None:
                assert await lines.read_lines() == [b"late"]
                nursery.cancel_scope.cancel()

            nursery.start_soon(expect)
            await trio.lowlevel.checkpoint()
            os.write(pipe, b"late\n")

    trio.run(write_late)
    os.close(pipe)
    assert pipe > 2


def test_waiting_for_a_pipe_can_be_cancelled(pipe: int) -> None:
    async def wait() -> bool:
        lines = StdinLines()
        with trio.move_on_after(0.01) as scope:
            await lines.read_lines()
        return scope.cancelled_caught

    assert trio.run(wait)
    os.close(pipe)


def test_the_size_of_a_file_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo")
    with path.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        lines = StdinLines()
        assert lines.size_bytes == 7
        assert all_lines(lines) == [b"one", b"two"]


def test_a_device_that_is_always_readable_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert all_lines(StdinLines()) == []


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stdin_records, "LINE_SIZE_BYTES_MAX", 10)
    monkeypatch.setattr(sys, "stdin", Stream([b"x" * 6, b"\n" + b"x" * 6, b"x" * 5]))
    with pytest.raises(CommandFailed, match="longer than 10 bytes"):
        all_lines(StdinLines())


# --- lines as records ---------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=5).filter(lambda value: value != b"NIL")), st.booleans())
def test_lines_become_records(values: list[bytes], has_keys: bool) -> None:
    parser = LineParser(
        key_separator=b"=>" if has_keys else None, null_text=b"NIL", headers=[("h", b"1")]
    )
    lines = [b"k=>" + value for value in values] if has_keys else values
    key = b"k" if has_keys else None
    expected = [ProducerRecord(value, key, (("h", b"1"),)) for value in values]
    assert parser.records(lines) == expected


def test_line_numbers_continue_from_block_to_block() -> None:
    parser = LineParser(key_separator=b":")
    parser.records([b"a:1", b"b:2"])
    with pytest.raises(CommandFailed, match="line 4 has no key separator ':': 'oops'"):
        parser.records([b"c:3", b"oops"])
