"""The metadata of a broker: durable changes, snapshots, and disks that fail."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.broker import lifetime
from minikafka.broker.broker import Broker
from minikafka.broker.control.metadata_store import MetadataStore
from minikafka.broker.opening import OLD_METADATA_FILE, open_broker
from minikafka.broker.quorum.change_error import ChangeError
from minikafka.metadata.decision import Decision
from minikafka.metadata.image import RESOURCE_TOPIC
from minikafka.metadata.records import (
    MetadataLogError,
    MetadataRecord,
    RemoveTopicRecord,
    SettingRecord,
    TopicRecord,
    encode_decision,
    encode_record,
)
from minikafka.storage.disk import Buffer, RealDisk, RealFile
from minikafka.storage.record_log import RecordLog
from tests.kit.in_process import options, running_broker


def setting(number: int) -> SettingRecord:
    return SettingRecord(RESOURCE_TOPIC, "t", "retention.ms", str(number))


async def write(broker: Broker, *records: MetadataRecord) -> None:
    await broker.controller.change(lambda: Decision(list(records), None))


def value(broker: Broker) -> str | None:
    return broker.image.topic_settings("t").get("retention.ms")


async def test_decisions_survive_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        await write(under_test.broker, TopicRecord("t", b"i" * 16), setting(1))
        await write(under_test.broker, setting(2))
    broker = open_broker(options(tmp_path))
    assert (list(broker.image.topics), value(broker)) == (["t"], "2")
    lifetime.close(broker)


async def test_a_log_that_is_mostly_history_is_replaced_by_a_snapshot(tmp_path: Path) -> None:
    small = "metadata.log.max.record.bytes.between.snapshots=2000"
    sizes: list[int] = []
    async with running_broker(tmp_path, small) as under_test:
        await write(under_test.broker, TopicRecord("t", b"i" * 16))
        for number in range(200):
            await write(under_test.broker, setting(number))
            sizes.append((tmp_path / "quorum.log").stat().st_size)
    assert max(sizes) < 10_000
    assert sizes != sorted(sizes)
    broker = open_broker(options(tmp_path))
    assert (list(broker.image.topics), value(broker)) == (["t"], "199")
    lifetime.close(broker)


async def test_after_a_failed_sync_all_changes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: RealFile) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async with running_broker(tmp_path) as under_test:
        broker = under_test.broker
        await write(broker, TopicRecord("t", b"i" * 16))
        with monkeypatch.context() as patch:
            patch.setattr(RealFile, "fsync", fail)
            with pytest.raises(ChangeError, match="Input/output error"):
                await write(broker, setting(1))
        with pytest.raises(ChangeError):
            await write(broker, setting(2))
        assert value(broker) is None


async def test_when_a_full_disk_has_room_again_changes_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    def write_a_part(self: RealFile, buffers: Sequence[Buffer], position: int) -> None:
        os.pwrite(self.fileno(), bytes(buffers[0])[:50], position)
        raise OSError(errno.ENOSPC, "No space left on device")

    async with running_broker(tmp_path, "log.cleaner.enable=false") as under_test:
        broker = under_test.broker
        await write(broker, TopicRecord("t", b"i" * 16))
        with monkeypatch.context() as patch:
            patch.setattr(RealFile, "pwritev", write_a_part)
            with pytest.raises(ChangeError, match="No space left"):
                await write(broker, setting(1))
        while not broker.controller.is_active:
            await broker.quorum.wait_changed()
        await write(broker, setting(2))
    broker = open_broker(options(tmp_path))
    assert value(broker) == "2"
    lifetime.close(broker)


async def test_the_log_of_a_version_without_a_quorum_is_imported(tmp_path: Path) -> None:
    old = RecordLog.open(RealDisk(), str(tmp_path / OLD_METADATA_FILE))
    old.append([encode_record(TopicRecord("t", b"i" * 16)), encode_record(setting(7))])
    old.close()
    for _ in range(2):
        async with running_broker(tmp_path) as under_test:
            assert value(under_test.broker) == "7"
    assert not (tmp_path / OLD_METADATA_FILE).exists()


# --- the store alone ----------------------------------------------------------------------------


async def test_followers_see_what_the_image_has_replayed() -> None:
    store = MetadataStore()
    seen: list[tuple[int, str]] = []

    async def follow(records: Sequence[MetadataRecord]) -> None:
        seen.append((len(records), store.image.topic_settings("t").get("retention.ms", "")))

    store.follow = follow
    woken: list[str] = []
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            await store.next_change()
            woken.append("woken")

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await store.apply(5, encode_decision([setting(1), setting(2)]))
        assert seen == [(2, "2")]
    assert woken == ["woken"]


async def test_an_entry_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(MetadataLogError, match="newer minikafka"):
        await MetadataStore().apply(5, b"nonsense")


async def test_a_snapshot_of_another_node_replaces_everything() -> None:
    leader, follower = MetadataStore(), MetadataStore()
    topics = [TopicRecord(f"t{number}", number.to_bytes(16)) for number in range(1, 2500)]
    await leader.apply(1, encode_decision([*topics, SettingRecord(0, "", "cluster.id", "abc")]))
    await follower.apply(1, encode_decision([TopicRecord("gone", b"g" * 16)]))
    replaced: list[int] = []

    async def follow_replaced() -> None:
        replaced.append(len(follower.image.topics))

    follower.follow_replaced = follow_replaced
    payloads = leader.make_snapshot()
    assert len(payloads) > 1
    await follower.load_snapshot(9, payloads)
    assert list(follower.image.records()) == list(leader.image.records())
    assert (replaced, follower.cluster_id) == ([2499], "abc")


def test_removed_topics_are_remembered_until_the_logs_are_checked() -> None:
    store = MetadataStore()
    add, remove = TopicRecord("t", b"i" * 16), RemoveTopicRecord(b"i" * 16)
    store.replay_stored([encode_decision([add, remove])])
    assert store.removed_topic_ids == {b"i" * 16}
    store.forget_removed()
    store.replay_stored([encode_decision([add, remove])])
    assert store.removed_topic_ids == set()
