from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka_client.core.framing import RECEIVE_SIZE_BYTES, FrameBuffer
from minikafka_client.errors import UnreadableResponseError

SIZES = (
    st.integers(0, 300)
    | st.integers(RECEIVE_SIZE_BYTES - 10, RECEIVE_SIZE_BYTES + 10)
    | st.just(3 * RECEIVE_SIZE_BYTES)
)


def receive(buffer: FrameBuffer, stream: bytes, pieces: list[int]) -> list[bytes]:
    """Feed a stream in pieces of these sizes (over and over); return the frames."""
    frames: list[bytes] = []
    position = turn = 0
    while position < len(stream):
        space = buffer.space()
        assert len(space) > 0
        size = min(pieces[turn % len(pieces)], len(space), len(stream) - position)
        space[:size] = stream[position : position + size]
        frames += [bytes(frame) for frame in buffer.received(size)]
        position += size
        turn += 1
    return frames


@given(
    sizes=st.lists(SIZES, max_size=8),
    pieces=st.lists(
        st.integers(1, 50) | st.integers(1, 2 * RECEIVE_SIZE_BYTES), min_size=1, max_size=5
    ).filter(lambda pieces: max(pieces) > 400),
)
def test_frames_come_out_however_the_stream_is_cut(sizes: list[int], pieces: list[int]) -> None:
    sent = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    stream = b"".join(pack(">i", len(frame)) + frame for frame in sent)
    assert receive(FrameBuffer(10_000_000), stream, pieces) == sent


@pytest.mark.parametrize("size", [-1, 1001, 2**31 - 1])
def test_an_impossible_size_is_refused_before_memory_is_taken(size: int) -> None:
    buffer = FrameBuffer(1_000)
    with pytest.raises(UnreadableResponseError, match=f"announces {size} bytes"):
        receive(buffer, pack(">i", size) + b"x", [100])


def test_a_large_frame_is_not_copied() -> None:
    buffer = FrameBuffer(10_000_000)
    size = 2 * RECEIVE_SIZE_BYTES
    head = pack(">i", size)
    buffer.space()[: len(head)] = head
    assert buffer.received(len(head)) == []
    space = buffer.space()
    assert len(space) == size
    space[:] = b"a" * size
    [frame] = buffer.received(size)
    assert frame.obj is space.obj
