"""What nodes say to each other, byte for byte: this version writes and reads what others did.

`version-1.txt` was written by the last commit before messages had declarations; `version-0.txt` has
what still older ones wrote. When a message gets a field, its operation's ``version`` grows, and
what it looks like then goes to another file (``version-2.txt`` has second versions); the old ones
stay and must still be read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import pytest

from minikafka.broker.rpc import operations
from minikafka.broker.rpc.codec import Codec
from minikafka.broker.rpc.frames import HEAD, FrameKind, decode_frame, encode_frame
from minikafka.broker.rpc.identity import decode_hello
from minikafka.consensus import messages as quorum
from minikafka.protocol.errors import ErrorCode

HERE = Path(__file__).parent


class Golden(NamedTuple):
    """One message.

    Attributes:
        version: of the file that has it.
        kind: request, answer, one-way, hello or frame.
        name: of the operation.
        content: its bytes.
        attached: bytes that travel beside it.
        meaning: the message as Python shows it.
    """

    version: int
    kind: str
    name: str
    content: bytes
    attached: bytes
    meaning: str

    @property
    def fields(self) -> Any:
        return msgpack.unpackb(self.content, use_list=False)


def read_golden() -> list[Golden]:
    found: list[Golden] = []
    for path in sorted(HERE.glob("version-*.txt")):
        version = int(path.stem.removeprefix("version-"))
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        for block in "\n".join(lines).strip().split("\n\n"):
            title, content, meaning = block.splitlines()
            kind, _, name = title.partition(" ")
            body, _, attached = content.partition("+")
            found.append(
                Golden(
                    *(version, kind, name),
                    bytes.fromhex(body),
                    bytes.fromhex(attached),
                    meaning.strip(),
                )
            )
    return found


GOLDEN = read_golden()
BY_NAME: dict[tuple[str, str], tuple[int, Codec[Any]]] = {
    **{("request", one.name): (one.version, one.request) for one in operations.OPERATIONS},
    **{("answer", one.name): (one.version, one.answer) for one in operations.OPERATIONS},
    **{("one-way", one.name): (one.version, one.message) for one in operations.ONE_WAY},
}


def meant(golden: Golden) -> Any:
    """The message that a text describes; fields that it does not name have their defaults."""
    text = re.sub(r"<(ErrorCode\.\w+): -?\d+>", r"\1", golden.meaning)
    return eval(text, {**vars(operations), "ErrorCode": ErrorCode})


def messages(*kinds: str) -> list[Golden]:
    return [one for one in GOLDEN if one.kind in kinds and one.name != operations.QUORUM.name]


def title(golden: Golden) -> str:
    return f"{golden.kind} {golden.name} {golden.version}"


@pytest.mark.parametrize("golden", messages("request", "answer", "one-way"), ids=title)
def test_messages_of_every_version_are_read_and_written_as_they_were(golden: Golden) -> None:
    version, codec = BY_NAME[golden.kind, golden.name]
    message = codec.decode(golden.fields)
    assert message == meant(golden)
    if golden.version == version:
        assert msgpack.packb(codec.encode(message)) == golden.content


def test_every_message_has_its_bytes_in_its_present_version() -> None:
    kept = {(one.kind, one.name, one.version) for one in GOLDEN}
    assert {(*key, version) for key, (version, _) in BY_NAME.items()} <= kept


@pytest.mark.parametrize("golden", [one for one in GOLDEN if one.kind == "hello"], ids=title)
def test_hellos(golden: Golden) -> None:
    hello = decode_hello(golden.fields)
    assert repr(hello) == golden.meaning
    assert msgpack.packb(hello) == golden.content


@pytest.mark.parametrize(
    "golden", [one for one in GOLDEN if one.name == operations.QUORUM.name], ids=title
)
def test_messages_of_the_quorum(golden: Golden) -> None:
    """As an older version wrote them: without the fields at the end, which have their defaults."""
    message = quorum.join_message(golden.fields, golden.attached)
    assert message == eval(golden.meaning, vars(quorum))
    fields, attached = quorum.split_message(message)
    written = msgpack.packb(fields[: len(golden.fields)])
    assert (written, attached) == (golden.content, golden.attached)


@pytest.mark.parametrize("golden", [one for one in GOLDEN if one.kind == "frame"], ids=title)
def test_frames(golden: Golden) -> None:
    _, header_size = HEAD.unpack_from(golden.content)
    frame = decode_frame(memoryview(golden.content)[HEAD.size :], header_size)
    parts = [*map(bytes, frame.attachments)]
    found = (frame.kind, frame.number, frame.name, frame.fields, parts)
    assert repr(found) == golden.meaning
    head = encode_frame(
        FrameKind(frame.kind), frame.number, frame.name, frame.fields, frame.attachments
    )
    assert head + b"".join(parts) == golden.content
