"""UpdateFeatures over the wire: the levels are fixed."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import update_features
from tests.kit.in_process import running_broker

TRANSACTIONS = "transaction.version"


async def update(
    data_dir: Path, *updates: tuple[str, int], version: int = 2
) -> update_features.Response:
    async with running_broker(data_dir) as under_test:
        request = update_features.Request(
            feature_updates=[
                update_features.FeatureUpdateKey(feature=name, max_version_level=level)
                for name, level in updates
            ]
        )
        return await under_test.connect().ask(request, version, update_features.Response)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_feature_can_be_set_to_its_current_level(tmp_path: Path, version: int) -> None:
    response = await update(tmp_path, (TRANSACTIONS, 1), (TRANSACTIONS, 2), version=version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    results = [(one.feature, one.error_code) for one in response.results]
    assert results == ([(TRANSACTIONS, ErrorCode.NONE)] if version < 2 else [])


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    ("name", "level", "words"),
    [
        ("no.such", 1, "Feature 'no.such' does not exist"),
        ("", 1, "Feature '' does not exist"),
        (TRANSACTIONS, 3, "levels are 0 to 2"),
        (TRANSACTIONS, -1, "levels are 0 to 2"),
        (TRANSACTIONS, 0, "fixed at level 2"),
    ],
)
async def test_one_invalid_update_fails_the_request(
    tmp_path: Path, name: str, level: int, words: str, version: int
) -> None:
    updates = [(TRANSACTIONS, 2), (name, level)]
    response = await update(tmp_path, *updates, version=version)
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert words in (response.error_message or "")
    assert response.results == []
