"""A FIFO where a file of the data directory belongs: an error that names it, never a wait."""

import os
from pathlib import Path

import pytest

from minikafka.broker.opening import open_broker
from minikafka.broker.system.start_error import StartError
from minikafka.protocol.errors import ErrorCode
from tests.kit.in_process import options, running_broker


def put_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.fixture
async def data_dir(tmp_path: Path) -> Path:
    """Of a broker that was stopped cleanly."""
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await client.produce("t", b"x")
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        ".lock",
        "meta",
        "quorum-state",
        "quorum.log",
        "quorum-synced",
        "recovery-point-offset-checkpoint",
        "clean-shutdown",
        "segment-sizes",
    ],
)
async def test_the_broker_does_not_start(data_dir: Path, name: str) -> None:
    put_fifo(data_dir / name)
    with pytest.raises(StartError, match=f"this is a FIFO.*{name}"):
        open_broker(options(data_dir))


@pytest.mark.parametrize(
    "name", ["00000000000000000000.log", "partition.metadata", "leader-epoch-checkpoint"]
)
async def test_the_partition_is_offline(
    data_dir: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    put_fifo(data_dir / "t-0" / name)
    async with running_broker(data_dir) as under_test:
        answer = await under_test.connect().fetch("t", 0)
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "partition t-0 is offline" in caplog.text
    assert "this is a FIFO" in caplog.text
