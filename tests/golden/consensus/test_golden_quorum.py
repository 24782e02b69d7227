"""What nodes of the quorum sent and stored in earlier versions, byte for byte.

Nodes of different versions run side by side, and a node finds the files of the version before it.
Later versions must still read everything here: files are only added, never changed, one for each
version that writes something new.
"""

import tomllib
from pathlib import Path
from random import Random
from typing import Any, Final, get_args

import msgpack
import pytest

from minikafka.consensus import (
    DurableLog,
    Entry,
    Message,
    PersistEntries,
    PersistState,
    QuorumConfig,
    decode_message,
    encode_message,
    join_message,
    split_message,
)
from minikafka.consensus.messages import (
    AppendRequest,
    AppendResponse,
    CampaignRequest,
    DirectoryOf,
    JoinRequest,
    LeaderHint,
    SnapshotRequest,
    SnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from minikafka.consensus.snapshot import decode_snapshot, encode_snapshot
from minikafka.consensus.voters import Voter, VoterSet, decode_voters, encode_voters
from minikafka.storage.memory_disk import MemoryDisk

VERSIONS: Final = sorted(path.stem for path in Path(__file__).parent.glob("*.toml"))
LATEST: Final = "0.1.0-voters"
THREE: Final = QuorumConfig(1, frozenset({1, 2, 3}))
DIRECTORY_ID: Final = b"directory of one"

MESSAGES: Final[dict[str, Message]] = {
    "vote_request": VoteRequest(epoch=7, last_epoch=6, last_index=1000, is_pre_vote=False),
    "pre_vote_request": VoteRequest(epoch=8, last_epoch=6, last_index=1000, is_pre_vote=True),
    "vote_request_to_a_recorded_voter": VoteRequest(
        epoch=7, last_epoch=6, last_index=1000, is_pre_vote=False, voter_directory=DIRECTORY_ID
    ),
    "vote_response": VoteResponse(epoch=7, asked_epoch=7, is_pre_vote=False, is_granted=True),
    "founding_vote_request": VoteRequest(
        epoch=1,
        last_epoch=0,
        last_index=0,
        is_pre_vote=False,
        directories=(DirectoryOf(1, DIRECTORY_ID), DirectoryOf(2, b"directory of two")),
    ),
    "vote_refused": VoteResponse(
        epoch=7,
        asked_epoch=7,
        is_pre_vote=True,
        is_granted=False,
        directory_id=DIRECTORY_ID,
        is_admitted=False,
    ),
    "admission": AppendRequest(
        epoch=7,
        previous_index=1000,
        previous_epoch=6,
        commit_index=998,
        entries=(),
        admitted_directory=DIRECTORY_ID,
    ),
    "newcomer_response": AppendResponse(
        epoch=7,
        is_accepted=True,
        previous_index=1000,
        last_index=1002,
        last_epoch=0,
        directory_id=DIRECTORY_ID,
        is_admitted=False,
    ),
    "append_request": AppendRequest(
        epoch=7,
        previous_index=1000,
        previous_epoch=6,
        commit_index=998,
        entries=(Entry(epoch=6, payload=b"decided"), Entry(epoch=7, payload=b"")),
    ),
    "heartbeat": AppendRequest(
        epoch=7, previous_index=1000, previous_epoch=6, commit_index=998, entries=()
    ),
    "heartbeat_of_a_recorded_voter": AppendRequest(
        epoch=7,
        previous_index=1000,
        previous_epoch=6,
        commit_index=998,
        entries=(),
        has_voter_set=True,
    ),
    "response_with_kraft_version": AppendResponse(
        epoch=7,
        is_accepted=True,
        previous_index=1000,
        last_index=1002,
        last_epoch=0,
        directory_id=DIRECTORY_ID,
        is_admitted=False,
        kraft_version_max=1,
    ),
    "append_response": AppendResponse(
        epoch=7, is_accepted=True, previous_index=1000, last_index=1002, last_epoch=0
    ),
    "append_refused": AppendResponse(
        epoch=7, is_accepted=False, previous_index=1000, last_index=900, last_epoch=5
    ),
    "snapshot_request": SnapshotRequest(
        epoch=7,
        last_index=1000,
        last_epoch=6,
        size_bytes=600_000,
        position=524_288,
        piece=b"piece",
    ),
    "snapshot_request_of_a_recorded_voter": SnapshotRequest(
        epoch=7,
        last_index=1000,
        last_epoch=6,
        size_bytes=600_000,
        position=524_288,
        piece=b"piece",
        has_voter_set=True,
    ),
    "snapshot_response": SnapshotResponse(epoch=7, last_index=1000, position=524_288),
    "join_request": JoinRequest(epoch=7),
    "campaign_request": CampaignRequest(epoch=7),
    "leader_hint": LeaderHint(epoch=7, leader_id=2, host="kafka-2", port=19092),
}
SNAPSHOTS: Final = {"empty": [], "two_payloads": [b"one", b"two"]}
VOTERS: Final = VoterSet(
    [Voter(1, DIRECTORY_ID, "kafka-1", 19092), Voter(2, b"directory of two", "kafka-2", 19092)]
)
# epoch, vote, base index, commit index, snapshot, (epoch, payload) of each entry after it
FILES: Final[dict[str, tuple[object, ...]]] = {
    "new_node": (0, None, 0, 0, [], []),
    "four_entries": (
        *(3, 2, 0, 3, []),
        [(2, b"before"), (3, b""), (3, b"decided"), (3, b"proposed")],
    ),
    "compacted": (
        *(3, 2, 2, 4, [b"one", b"two"]),
        [(3, b"decided"), (3, b"proposed"), (3, b"proposed later")],
    ),
}


def golden(version: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(f"{version}.toml").read_text())


def as_bytes(text: str) -> bytes:
    return bytes.fromhex(text)


def test_the_latest_bytes_hold_every_kind_of_message() -> None:
    assert VERSIONS[-1] == LATEST
    assert {type(MESSAGES[name]) for name in golden(LATEST)["messages"]} == set(get_args(Message))
    assert golden(LATEST)["split_messages"].keys() == golden(LATEST)["messages"].keys()


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_are_read_as_they_were_meant(version: str) -> None:
    for name, text in golden(version)["messages"].items():
        assert decode_message(msgpack.unpackb(as_bytes(text))) == MESSAGES[name], name
    for name, (fields, attached) in golden(version)["split_messages"].items():
        joined = join_message(msgpack.unpackb(as_bytes(fields)), as_bytes(attached))
        assert joined == MESSAGES[name], name


def test_messages_are_written_as_the_latest_bytes() -> None:
    for name, text in golden(LATEST)["messages"].items():
        assert msgpack.packb(encode_message(MESSAGES[name])) == as_bytes(text), name
    for name, texts in golden(LATEST)["split_messages"].items():
        fields, attached = split_message(MESSAGES[name])
        assert [msgpack.packb(fields), attached] == [as_bytes(one) for one in texts], name


@pytest.mark.parametrize("version", VERSIONS)
def test_snapshots_are_read_as_they_were_meant(version: str) -> None:
    for name, text in golden(version)["snapshots"].items():
        assert decode_snapshot(as_bytes(text)) == SNAPSHOTS[name], name


def test_snapshots_are_written_as_the_latest_bytes() -> None:
    for name, text in golden(LATEST)["snapshots"].items():
        assert encode_snapshot(SNAPSHOTS[name]) == as_bytes(text), name


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", FILES)
def test_a_node_opens_its_files(version: str, name: str) -> None:
    disk = MemoryDisk(Random(1))
    disk.make_directory("d")
    for file, text in golden(version)["files"][name].items():
        disk.replace_file(f"d/{file}", as_bytes(text), sync=True)
    durable = DurableLog.open(disk, "d", THREE, new_directory_id=lambda: DIRECTORY_ID)
    log = durable.log
    entries = log.entries(log.base_index + 1, 1 << 20)
    base_index, payloads = durable.stored_snapshot()
    found = (durable.epoch, durable.vote, base_index, durable.commit_index, payloads)
    assert (*found, list(map(tuple, entries))) == FILES[name]
    assert durable.directory_id == DIRECTORY_ID
    assert durable.is_admitted is (version == "0.1.0" or name != "new_node")


def test_a_voter_set_is_read_and_written_as_the_latest_bytes() -> None:
    payload = as_bytes(golden(LATEST)["voters"]["two"])
    assert decode_voters(payload) == VOTERS
    assert encode_voters(VOTERS) == payload


def test_a_node_opens_and_writes_the_files_of_a_recorded_voter() -> None:
    files = {name: as_bytes(text) for name, text in golden(LATEST)["recorded_voters"].items()}
    disk = MemoryDisk(Random(1))
    disk.make_directory("d")
    durable = DurableLog.open(disk, "d", THREE, new_directory_id=lambda: DIRECTORY_ID)
    entries = (Entry(1, b""), Entry(1, encode_voters(VOTERS)), Entry(1, b"decided"))
    durable.log.append(entries)
    durable.write([PersistState(1, 1), PersistEntries(1, entries)], 3)
    durable.compact(2, [b"one"])
    durable.close(3)
    written = {name: disk.read_file(f"d/{name}", size_bytes_max=1 << 20) for name in files}
    assert written == files
    # The configuration counts no longer.
    alone = QuorumConfig(1, frozenset({1}))
    again = DurableLog.open(disk, "d", alone, new_directory_id=lambda: b"")
    assert again.log.voters == VOTERS
    assert (again.voters, again.is_alone) == (frozenset({1, 2}), False)
    assert again.stored_snapshot() == (2, [b"one"])


def test_a_node_writes_its_files_as_the_latest_bytes() -> None:
    disk = MemoryDisk(Random(1))
    disk.make_directory("d")

    def check(name: str) -> None:
        for file, text in golden(LATEST)["files"][name].items():
            assert disk.read_file(f"d/{file}", size_bytes_max=1 << 20) == as_bytes(text), file

    durable = DurableLog.open(disk, "d", THREE, new_directory_id=lambda: DIRECTORY_ID)
    check("new_node")
    four = tuple(
        Entry(*one) for one in [(2, b"before"), (3, b""), (3, b"decided"), (3, b"proposed")]
    )
    durable.write([PersistState(3, 2), PersistEntries(1, four)], 3)
    durable.log.append(four)
    check("four_entries")
    durable.compact(2, [b"one", b"two"])
    durable.write([PersistEntries(5, (Entry(3, b"proposed later"),))], 4)
    durable.close(4)
    check("compacted")
