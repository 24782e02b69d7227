"""Hostile requests: well-formed ones with extreme values, and damaged bytes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from minikafka.broker.handlers import API_TABLE
from minikafka.protocol import records as record_format
from minikafka.protocol.api import ApiKey, request_class
from minikafka.protocol.fields import Field, Struct, struct_fields
from minikafka.protocol.frames import encode_request
from minikafka.testing.wire import TIMEOUT_S
from tests.kit.wire import Wire
from tests.protocol.instances import Case, random_message

KNOWN = ("fuzz-a", "fuzz-b")
"""Names that the fuzz prefers: of topics that exist, and of groups and members."""

NAMES = (*KNOWN, *KNOWN, "fuzz-none", "__consumer_offsets", "", "..", "bad name", "x" * 300)
SETTINGS = ("retention.ms", "cleanup.policy", "segment.bytes", "max.message.bytes", "no.such")
SMALL = (0, 0, 1, 1, 2, 3, -1, -2)
TIMES = (-1, 0, 1000, 1_700_000_000_000, 2**63 - 1)
HUGE_COUNTS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x7f\xff", b"\xff\xff\xff\x7f")

FOLLOWER_ID = b"\x7f\xff\xff\x01"
FOLLOWER = b"\x00\x00\x00\x0a" + b"\x00\x12\x00\x00" + FOLLOWER_ID + b"\xff\xff"
"""ApiVersions 0: sent behind every frame, so that there is an answer if the connection lives on."""

# Almost always so: other values would keep a correct broker busy, or have it refuse all the rest.
TAMED: dict[str, Any] = {
    "max_wait_ms": 5,
    "timeout_ms": 5,
    "num_partitions": 3,
    "count": 5,
    "rebalance_timeout_ms": 50,
    "session_timeout_ms": 1000,
    "transactional_id": None,
}


def every_case() -> list[Case]:
    """Every version of every API that the broker serves."""
    return [
        Case(request_class(ApiKey(handler.api_key)), version)
        for handler in API_TABLE.values()
        for version in range(handler.first_version, handler.last_version + 1)
    ]


def plausible_frame(case: Case, dice: random.Random, topic_ids: list[bytes]) -> bytes:
    """A well-formed request: about things that exist, about others, with edges everywhere."""
    message: Any = random_message(case, dice, items_max=2)
    _make_plausible(message, case.version, dice, topic_ids)
    return b"".join(encode_request(message, case.version, 7, "fuzz"))


def _make_plausible(
    struct: Struct, version: int, dice: random.Random, topic_ids: list[bytes]
) -> None:
    for field in struct_fields(type(struct), version):
        value = getattr(struct, field.name)
        if field.kind == "struct" and value is not None:
            assert field.struct is not None
            own = field.struct(**{one.name: getattr(value, one.name) for one in value.FIELDS})
            setattr(struct, field.name, own)
            _make_plausible(own, version, dice, topic_ids)
        elif field.kind == "array" and value is not None and field.item is not None:
            if field.item.kind == "struct":
                for one in value:
                    _make_plausible(one, version, dice, topic_ids)
            else:
                item = field.item
                known = [_plausible(item, one, dice, topic_ids) for one in value]
                setattr(struct, field.name, known)
        elif field.name in TAMED and dice.random() < 0.98:
            tamed = TAMED[field.name]
            if tamed is not None or version in field.nullable:
                setattr(struct, field.name, tamed)
        else:
            setattr(struct, field.name, _plausible(field, value, dice, topic_ids))


def _plausible(field: Field, value: Any, dice: random.Random, topic_ids: list[bytes]) -> Any:
    if value is None or dice.random() < 0.3:
        return value
    match field.kind:
        case "string":
            return dice.choice(SETTINGS if "config" in field.name else NAMES)
        case "uuid":
            return dice.choice(topic_ids)
        case "records":
            return batch(dice)
        case "int8" | "int16" | "int32" | "int64":
            return dice.choice(SMALL)
        case _:
            return value


def batch(dice: random.Random) -> bytes:
    """A record batch: good, damaged, or with a good header and checksum around anything."""
    kind = dice.randrange(4)
    if kind == 0:
        return _hollow_batch(dice)
    records = [(b"k", dice.randbytes(20), (), dice.choice(TIMES))] * dice.randint(1, 5)
    encoded = bytes(
        record_format.encode_batch(
            records, compression=dice.choice(list(record_format.Compression))
        )
    )
    return damage(encoded, dice) if kind == 1 else encoded


def _hollow_batch(dice: random.Random) -> bytes:
    """The header does not match the contents, but the checksum is right."""
    content = dice.choice([b"", b"\x00", b"\xff" * 9, dice.randbytes(30)])
    if dice.random() < 0.5:
        inner = record_format.encode_batch([(b"k", b"v" * 50, (), 1000)] * 3)
        content = damage(bytes(inner[record_format.BATCH_HEADER_SIZE_BYTES :]), dice)
    count = dice.choice([1, 3, 3, 100])
    encoded = record_format.assemble_batch(
        content,
        record_count=count,
        last_offset_delta=count - 1 if dice.random() < 0.9 else dice.choice([0, 7, 2**31 - 1]),
        base_timestamp=dice.choice(TIMES),
        max_timestamp=dice.choice(TIMES),
        has_log_append_time=dice.random() < 0.2,
        compression=dice.choice(list(record_format.Compression)),
        producer_id=dice.choice([-1, -1, 0, 5, 2**63 - 1]),
        producer_epoch=dice.choice([-1, 0, 2**15 - 1]),
        base_sequence=dice.choice([-1, 0, 2**31 - 1]),
        is_transactional=dice.random() < 0.05,
        is_control=dice.random() < 0.05,
    )
    if dice.random() < 0.5:  # compressed, says the attribute, but it is not
        encoded[22] = dice.randrange(8)
        crc = record_format.compute_crc(encoded, 0, len(encoded))
        encoded[17:21] = crc.to_bytes(4, "big")
    return bytes(encoded)


def damage(content: bytes, dice: random.Random) -> bytes:
    """A few bytes changed, inserted, removed, or replaced by a huge count."""
    damaged = bytearray(content)
    for _ in range(dice.choice([1, 1, 1, 2, 5])):
        at = dice.randint(0, len(damaged))
        match dice.randrange(4):
            case 0:
                damaged[at : at + 1] = dice.randbytes(1)
            case 1:
                huge = dice.choice(HUGE_COUNTS)
                damaged[at : at + len(huge)] = huge
            case 2:
                damaged[at:at] = dice.randbytes(dice.randint(1, 4))
            case _:
                del damaged[at : at + dice.randint(1, 4)]
    return bytes(damaged)


def damaged_frame(frame: bytes, dice: random.Random) -> bytes:
    """A frame with a damaged or cut body, of which the size is right (mostly)."""
    head, body = frame[4:12], frame[12:]
    body = body[: dice.randint(0, len(body))] if dice.random() < 0.3 else damage(body, dice)
    size = len(head) + len(body)
    if dice.random() < 0.05:
        size = dice.choice([0, 1, 7, size - 1, 2**31 - 1, 2**32 - 1])
    return max(size, 0).to_bytes(4, "big") + head + body


def garbage(dice: random.Random) -> bytes:
    """Bytes that need not even look like a frame."""
    content = dice.randbytes(dice.choice([1, 3, 4, 11, 12, 40, 400]))
    if dice.random() < 0.5:
        return len(content).to_bytes(4, "big") + content
    return content


def frames(case: Case, dice: random.Random, topic_ids: list[bytes], count: int) -> Iterator[bytes]:
    """Plausible and damaged frames in turn."""
    for _ in range(count):
        frame = plausible_frame(case, dice, topic_ids)
        yield frame
        yield damaged_frame(frame, dice)


class Attacker:
    """Sends bytes, on a new connection whenever the broker closed the last one.

    Args:
        address: ``HOST:PORT`` of the broker.

    Attributes:
        answered: how many frames had an answer.
        refused: after how many the connection was closed.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._wire: Wire | None = None
        self.answered = 0
        self.refused = 0

    def send(self, frame: bytes, timeout_s: float = TIMEOUT_S) -> None:
        """Send a frame; returns when the broker has dealt with it.

        Raises:
            TimeoutError: there was no answer, and the connection stayed open.
        """
        wire = self._wire = self._wire or Wire(self._address)
        wire.socket.settimeout(timeout_s)
        try:
            wire.socket.sendall(frame + FOLLOWER)
            answer = wire.receive_frame()
            if answer is not None and answer[:4] != FOLLOWER_ID:
                self.answered += 1
            while answer is not None and answer[:4] != FOLLOWER_ID:
                answer = wire.receive_frame()
        except ConnectionError:
            answer = None
        if answer is None:
            self.refused += 1
            self.hang_up()

    def hang_up(self) -> None:
        if self._wire is not None:
            self._wire.socket.close()
            self._wire = None
