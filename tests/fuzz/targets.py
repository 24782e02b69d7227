"""The parsers of everything that comes from outside, or from a disk, each as a function of bytes.

A target raises nothing but the errors that its callers expect. It also checks what must hold for
input that is accepted: a message that was decoded is written and read again as the same.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import msgpack

from minikafka.broker.rpc import operations
from minikafka.broker.rpc.codec import Codec, MalformedFieldsError
from minikafka.broker.rpc.errors import RpcProtocolError
from minikafka.broker.rpc.frames import FRAME_SIZE_BYTES_MAX, HEAD, FrameKind, check_head
from minikafka.broker.rpc.frames import decode_frame as decode_rpc_frame
from minikafka.broker.rpc.identity import decode_hello
from minikafka.consensus import messages as quorum
from minikafka.metadata.records import MetadataLogError, decode_decision, decode_record
from minikafka.protocol import records as record_format
from minikafka.protocol.exceptions import MalformedMessageError
from minikafka.protocol.frames import (
    decode_request_header,
    decode_response_header,
    encode_request,
    peek_api,
)
from minikafka.protocol.records import batch as batches
from minikafka.protocol.records.compression import compress, decompress
from minikafka.protocol.records.errors import CorruptBatchError
from minikafka.protocol.records.payload_bounds import check_payload
from minikafka.protocol.schema import Message
from minikafka.security.mechanisms import Check, Granted
from minikafka.security.oauthbearer import MalformedResponseError, parse_initial_response
from minikafka.security.plain import PlainServer
from minikafka.security.scram import (
    MalformedScramError,
    ScramCredential,
    ScramMechanism,
    ScramServer,
    decoy_credential,
    parse_client_final,
    parse_client_first,
)
from minikafka.storage.checkpoints import Checkpoint, read_checkpoint
from minikafka.storage.directory_meta import check_meta
from minikafka.storage.disk import FileCache
from minikafka.storage.errors import LogError
from minikafka.storage.index import SparseIndex
from minikafka.storage.leader_epochs import LeaderEpochCache
from minikafka.storage.memory_disk import MemoryDisk
from minikafka.storage.partition_identity import read_identity
from minikafka.storage.producer_state import ProducerStateManager
from minikafka.storage.record_log import RecordLog
from tests.golden.rpc.test_messages import GOLDEN
from tests.golden.storage.test_stored_files import golden_files
from tests.protocol.instances import Case, every_case, random_message

CORPUS: Final = Path(__file__).parent / "corpus"
DECOMPRESSED_BYTES_MAX: Final = 1 << 20
_INDEX: Final = struct.Struct(">H")


class Target(NamedTuple):
    """One parser.

    Attributes:
        parse: raises nothing but ``allowed``.
        allowed: the errors that mean "this is malformed".
        seeds: valid inputs, from which mutations begin, beside the corpus.
    """

    parse: Callable[[bytes], None]
    allowed: tuple[type[Exception], ...]
    seeds: Callable[[], list[bytes]]


# --- Kafka's protocol ----------------------------------------------------------------------------


def _frames(content: bytes) -> None:
    view = memoryview(content)
    peek_api(view)
    for flexible in (False, True):
        decode_request_header(view, flexible=flexible)
        decode_response_header(view, flexible=flexible)


def _frame_seeds() -> list[bytes]:
    found: list[bytes] = []
    dice = Random(1)
    for case in _cases()[::40]:
        message: Any = random_message(case, dice, items_max=1)
        parts = encode_request(message, case.version, 7, "fuzz")
        found.append(b"".join(parts)[4:])
    return found


@cache
def _cases() -> list[Case]:
    return every_case()


def _messages(content: bytes) -> None:
    """The first two bytes say which message in which version."""
    if len(content) < _INDEX.size:
        raise MalformedMessageError("no message")
    cases = _cases()
    case = cases[_INDEX.unpack_from(content)[0] % len(cases)]
    message = case.message.decode(case.version, memoryview(content), _INDEX.size)
    written = _bytes_of(message, case.version)
    # The bytes are compared, because NaN is not equal to itself.
    assert _bytes_of(case.message.decode(case.version, memoryview(written), 0), case.version) == (
        written
    )


def _bytes_of(message: Message, version: int) -> bytes:
    return b"".join(bytes(part) for part in message.encode(version))


def _message_seeds() -> list[bytes]:
    dice = Random(2)
    return [
        _INDEX.pack(number) + _bytes_of(random_message(case, dice, 1), case.version)
        for number, case in enumerate(_cases())
    ]


# --- records -------------------------------------------------------------------------------------


def _batches(content: bytes) -> None:
    """Every check of a batch, with the checksum repaired, so that it does not hide the others."""
    for position, header in batches.iter_batches(content):
        repaired = bytearray(content[position : position + header.size_bytes])
        crc = batches.compute_crc(bytes(repaired), 0, header.size_bytes)
        repaired[17:21] = crc.to_bytes(4, "big")
        whole = bytes(repaired)
        assert batches.crc_is_valid(whole, 0, batches.parse_batch_header(whole))
        found = record_format.decode_records(
            whole, size_bytes_max=DECOMPRESSED_BYTES_MAX, check_crc=True
        )
        if header.record_count > 0:
            # What can be decoded in full passes the quick check as well.
            check_payload(whole, 0, header)
        assert len(found) <= max(0, header.record_count)


def _batch_seeds() -> list[bytes]:
    records: list[Any] = [
        (b"key", b"value" * 20, (("header", b"x"), ("none", None)), 1000),
        (None, None, (), 1001),
    ]
    found = [
        bytes(record_format.encode_batch(records, compression=codec))
        for codec in record_format.Compression
    ]
    found.append(bytes(record_format.encode_batch(records, producer_id=5, base_sequence=3)))
    return [*found, found[0] + found[1]]


def _compressed(content: bytes) -> None:
    """The first byte is the codec."""
    if not content:
        raise CorruptBatchError("empty")
    codec = record_format.Compression(1 + content[0] % 4)
    found = decompress(codec, content[1:], size_bytes_max=DECOMPRESSED_BYTES_MAX)
    assert len(found) <= DECOMPRESSED_BYTES_MAX


def _compressed_seeds() -> list[bytes]:
    texts = [b"", b"a", b"abc" * 100, bytes(range(256)) * 3, bytes(2 << 20)]
    return [
        bytes([codec - 1]) + compress(codec, text)
        for codec in list(record_format.Compression)[1:]
        for text in texts
    ]


# --- logging in ----------------------------------------------------------------------------------

_SASL_CONVERSATIONS: Final = 5


def _sasl(content: bytes) -> None:
    """The first byte says which parser, the rest is the message; nobody may get in."""
    if not content:
        raise MalformedScramError("empty")
    kind, message = content[0] % _SASL_CONVERSATIONS, content[1:]
    if kind == 0:
        parse_client_first(message)
    elif kind == 1:
        parse_client_final(message)
    elif kind == 2:
        parse_initial_response(message)
    elif kind == 3:
        _nobody_gets_in(PlainServer({"alice": _SECRET}), message)
    else:
        _nobody_gets_in(
            ScramServer(ScramMechanism.SCRAM_SHA_256, _credential_of, lambda: "servernonce"),
            message,
        )


def _nobody_gets_in(server: Any, message: bytes) -> None:
    for part in message.split(b"\xff\xff"):
        step = server.step(part)
        verdict = step.run() if isinstance(step, Check) else step
        assert not isinstance(verdict, Granted), message


_SHA_256: Final = ScramMechanism.SCRAM_SHA_256
_SECRET: Final = "a password that no mutation guesses"


def _credential_of(user: str) -> ScramCredential:
    return decoy_credential(_SHA_256, user, b"key")


def _sasl_seeds() -> list[bytes]:
    final = b"c=biws,r=xservernonce,p=" + b64encode(bytes(32))
    return [
        b"\0n,,n=alice,r=x",
        b"\0y,a=alice,n=al=2Cice,r=fyko+d2lbbFgONRv9qkxdawL,ext=1",
        b"\1" + final,
        b"\2n,a=user@example.com,\x01host=h\x01port=143\x01auth=Bearer vF9dft4qmTc2==\x01\x01",
        b"\2n,,\x01auth=Bearer a.b.c\x01\x01",
        b"\3\0alice\0wrong",
        b"\3alice\0alice\0wrong",
        b"\4n,,n=alice,r=x\xff\xff" + final,
    ]


# --- between nodes -------------------------------------------------------------------------------

_CODECS: Final[dict[str, tuple[Codec[Any], ...]]] = {
    **{one.name: (one.request, one.answer) for one in operations.OPERATIONS},
    **{one.name: (one.message,) for one in operations.ONE_WAY},
}


def _internal(content: bytes) -> None:
    """A frame as a node receives it, and the message in it by its operation."""
    if len(content) < HEAD.size:
        raise RpcProtocolError("no head")
    size, header_size = HEAD.unpack_from(content)
    check_head(size, header_size, FRAME_SIZE_BYTES_MAX)
    body = memoryview(content)[HEAD.size : 4 + size]
    if len(body) != size - 4:
        raise RpcProtocolError("it is incomplete")
    frame = decode_rpc_frame(body, header_size)
    if frame.kind == FrameKind.HELLO:
        decode_hello(frame.fields)
    elif frame.name == operations.QUORUM.name:
        quorum.join_message(frame.fields, b"".join(frame.attachments))
    else:
        for codec in _CODECS.get(frame.name, ()):
            try:
                codec.decode(frame.fields)
            except MalformedFieldsError:
                continue


def _internal_seeds() -> list[bytes]:
    kinds = {"hello": 0, "request": 1, "answer": 2, "one-way": 4}
    found: list[bytes] = []
    for one in GOLDEN:
        if one.kind not in kinds:
            continue
        sizes = [len(one.attached)] if one.attached else []
        header = msgpack.packb((kinds[one.kind], 3, one.name, one.fields, sizes))
        found.append(
            HEAD.pack(4 + len(header) + len(one.attached), len(header)) + header + one.attached
        )
    return found


# --- stored --------------------------------------------------------------------------------------


def _disk(path: str, content: bytes) -> MemoryDisk:
    disk = MemoryDisk(Random(1))
    disk.make_directory("d")
    disk.replace_file(f"d/{path}", content, sync=True)
    return disk


def _stored_index(content: bytes) -> None:
    stem = "d/00000000000000000000"
    index = SparseIndex(FileCache(_disk("00000000000000000000.index", content)), stem)
    if not index.is_of_earlier_version() and not index.flaw():
        list(index.entries())


_READERS: Final[list[Callable[[bytes], object]]] = [
    decode_record,
    decode_decision,
    lambda content: LeaderEpochCache.decode(content, path="fuzz"),
    lambda content: ProducerStateManager().load(content, offset=11, path="fuzz", now_ms=0),
    lambda content: read_checkpoint(
        _disk(str(Checkpoint.RECOVERY_POINT), content), "d", Checkpoint.RECOVERY_POINT
    ),
    lambda content: list(RecordLog.open(_disk("records.log", content), "d/records.log").records()),
    _stored_index,
    lambda content: read_identity(_disk("partition.metadata", content), "d"),
    lambda content: check_meta(_disk("meta", content), "d", 7, None, "new"),
]


def _stored(content: bytes) -> None:
    """The first byte says which kind of file."""
    if not content:
        raise MetadataLogError("empty")
    _READERS[content[0] % len(_READERS)](content[1:])


def _stored_seeds() -> list[bytes]:
    def one(name: str) -> bytes:
        return next(iter(golden_files(name).values()))

    from tests.golden.metadata.test_golden_records import golden

    latest = golden("0.1.0")
    checkpoints = golden_files("checkpoints")
    index = next(text for path, text in golden_files("indexes").items() if path.endswith(".index"))
    found = [b"\0" + bytes.fromhex(text) for text in latest["records"].values()]
    found += [b"\1" + bytes.fromhex(text) for text in latest["entries"].values()]
    found += [b"\2" + one("leader_epochs"), b"\3" + one("producer_snapshot")]
    found += [b"\3" + one("producer_snapshot_1"), b"\4" + next(iter(checkpoints.values()))]
    found += [b"\5" + one("record_log"), b"\5" + one("record_log_snapshot"), b"\6" + index]
    return [*found, b"\7" + one("partition_metadata"), b"\x08" + one("meta")]


TARGETS: Final[dict[str, Target]] = {
    "frames": Target(_frames, (MalformedMessageError,), _frame_seeds),
    "messages": Target(_messages, (MalformedMessageError,), _message_seeds),
    "batches": Target(_batches, (CorruptBatchError,), _batch_seeds),
    "compressed": Target(_compressed, (CorruptBatchError,), _compressed_seeds),
    "sasl": Target(_sasl, (MalformedScramError, MalformedResponseError), _sasl_seeds),
    "internal": Target(
        _internal,
        (RpcProtocolError, MalformedFieldsError, quorum.MalformedQuorumMessage),
        _internal_seeds,
    ),
    "stored": Target(_stored, (LogError, MetadataLogError), _stored_seeds),
}


def corpus_of(name: str) -> list[bytes]:
    """The inputs that are checked in for a target."""
    path = CORPUS / f"{name}.txt"
    if not path.exists():
        return []
    lines = path.read_text().splitlines()
    return [bytes.fromhex(line) for line in lines if not line.startswith("#")]


def beginnings(name: str) -> list[bytes]:
    """What mutations of a target begin with."""
    return [*TARGETS[name].seeds(), *corpus_of(name)]
