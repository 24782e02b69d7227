"""The first requests on every connection."""

from __future__ import annotations

import pytest

from minikafka.protocol.messages import api_versions
from minikafka_client.core.versions import BrokerVersions
from minikafka_client.errors import BrokerError, UnsupportedByBrokerError
from minikafka_client.plans.handshake import shake_hands

# --- the greeting --------------------------------------------------------------------------------


def greeted(*answers: api_versions.Response) -> tuple[BrokerVersions, list[int]]:
    """Greet a broker that answers like this; what it has, and which versions were tried."""
    plan = shake_hands(("host", 1))
    tried: list[int] = []
    request, version = next(plan)
    for answer in answers:
        assert isinstance(request, api_versions.Request)
        tried.append(version)
        try:
            request, version = plan.send(answer)
        except StopIteration as end:
            versions: BrokerVersions = end.value.versions
            return versions, tried
    raise AssertionError(f"another answer is wanted after {tried}")


def versions(code: int, last: int | None = 4) -> api_versions.Response:
    keys = (
        []
        if last is None
        else [api_versions.ApiVersion(api_key=18, min_version=0, max_version=last)]
    )
    return api_versions.Response(error_code=code, api_keys=keys)


def test_a_broker_with_an_old_api_versions_is_asked_in_its_own() -> None:
    assert greeted(versions(0))[1] == [4]
    assert greeted(versions(35, 2), versions(0, 2))[1] == [4, 2]
    assert greeted(versions(35, None), versions(0, 0))[1] == [4, 0]


def test_a_broker_that_refuses_every_version_is_too_old() -> None:
    with pytest.raises(UnsupportedByBrokerError, match=r"host:1 does not say which versions"):
        greeted(versions(35, None), versions(35, None))


def test_a_broker_that_refuses_for_other_reasons_says_so() -> None:
    with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED"):
        greeted(versions(31))
