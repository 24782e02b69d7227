from __future__ import annotations

import pytest

from minikafka.protocol.fields import VersionRange
from minikafka.protocol.messages import api_versions, create_topics, metadata
from minikafka_client.core.versions import SpokenVersions, broker_versions, negotiate
from minikafka_client.errors import UnsupportedByBrokerError


def test_the_newest_common_version_is_chosen() -> None:
    assert negotiate(metadata.Request, {3: VersionRange(0, 9)}) == 9
    assert negotiate(metadata.Request, {3: VersionRange(0, 99)}) == metadata.Request.VERSIONS.last


def test_the_caller_can_narrow_it_down() -> None:
    assert negotiate(metadata.Request, {3: VersionRange(0, 13)}, version_max=12) == 12
    with pytest.raises(UnsupportedByBrokerError, match="this call needs 7 to 13; use a newer"):
        negotiate(metadata.Request, {3: VersionRange(0, 6)}, version_min=7)


def test_a_broker_that_is_too_new_says_so() -> None:
    with pytest.raises(UnsupportedByBrokerError, match=r"versions 99 to 100.*use a newer client"):
        negotiate(metadata.Request, {3: VersionRange(99, 100)})


def test_a_broker_without_the_api_says_so() -> None:
    with pytest.raises(UnsupportedByBrokerError, match=r"no CreateTopics API \(key 19\)"):
        negotiate(create_topics.Request, {})


def test_the_table_comes_from_api_versions() -> None:
    response = api_versions.Response(
        error_code=0, api_keys=[api_versions.ApiVersion(api_key=3, min_version=1, max_version=5)]
    )
    assert broker_versions(response) == {3: VersionRange(1, 5)}


def test_what_was_negotiated_is_remembered_for_each_range() -> None:
    spoken = SpokenVersions({3: VersionRange(0, 9)})
    assert [spoken.version_for(metadata.Request, 0, last) for last in (99, 8, 99, 8)] == [
        9,
        8,
        9,
        8,
    ]
    for _ in range(2):
        with pytest.raises(UnsupportedByBrokerError):
            spoken.version_for(metadata.Request, 10, 99)
