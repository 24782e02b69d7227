"""Which version of an API both sides have (KIP-35, KIP-511)."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.protocol.api import ApiKey
from minikafka.protocol.fields import VersionRange
from minikafka.protocol.messages import api_versions
from minikafka.protocol.schema import Message
from minikafka_client.errors import UnsupportedByBrokerError

BrokerVersions = Mapping[int, VersionRange]
"""API key -> the versions that a broker serves."""

LATEST_API_VERSIONS = 4
"""The ApiVersions version to start with; a broker that lacks it answers in version 0."""


def broker_versions(response: api_versions.Response) -> BrokerVersions:
    return {
        api.api_key: VersionRange(api.min_version, api.max_version) for api in response.api_keys
    }


def negotiate(
    request: type[Message],
    broker: BrokerVersions,
    *,
    version_min: int = 0,
    version_max: int = 32767,
) -> int:
    """The newest version in common; without one, `UnsupportedByBrokerError` names all ranges."""
    ours = request.VERSIONS
    first, last = max(ours.first, version_min), min(ours.last, version_max)
    theirs = broker.get(request.API_KEY)
    name = ApiKey(request.API_KEY).title
    if theirs is None:
        raise UnsupportedByBrokerError(
            f"the broker has no {name} API (key {request.API_KEY}), which this call needs in "
            f"versions {first} to {last}; use a newer broker, or one that allows it"
        )
    version = min(last, theirs.last)
    if version < max(first, theirs.first):
        advice = "use a newer broker" if theirs.last < first else "use a newer client"
        raise UnsupportedByBrokerError(
            f"the broker serves {name} in versions {theirs.first} to {theirs.last}, but this call "
            f"needs {first} to {last}; {advice}"
        )
    return version


class SpokenVersions:
    """`negotiate` with one broker, remembered: the same few requests are sent again and again."""

    def __init__(self, broker: BrokerVersions) -> None:
        self.of_broker = self._broker = broker
        # Bounded: callers name their limits in the code, or (Produce, Fetch) one of two.
        self._versions: dict[tuple[type[Message], int, int], int] = {}

    def version_for(self, request: type[Message], version_min: int, version_max: int) -> int:
        key = (request, version_min, version_max)
        version = self._versions.get(key)
        if version is None:
            version = self._versions[key] = negotiate(
                request, self._broker, version_min=version_min, version_max=version_max
            )
        return version
