"""Client metrics subscriptions: which clients they match, and what is refused."""

import pytest

from minikafka.metadata.client_metrics import (
    ClientDescription,
    InvalidSubscriptionError,
    Subscription,
    check_client_metrics,
    subscription_for,
)
from minikafka.metadata.settings import InvalidSettingError

JAVA = ClientDescription("Q-Q", "billing-1", "apache-kafka-java", "4.4.0", "10.0.0.7", "40123")


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        ("", True),
        ("client_id=billing-.*", True),
        ("client_id=billing", False),  # the whole value has to match
        ("client_id=billing-.*,client_software_version=4\\..*", True),
        ("client_id=billing-.*,client_software_version=3\\..*", False),
        ("client_source_address=10\\.0\\.0\\.7,client_source_port=4.*", True),
        ("client_instance_id=Q-Q", True),
    ],
)
def test_all_pairs_of_a_subscription_must_match(match: str, matches: bool) -> None:
    found = subscription_for(JAVA, [{"match": match, "metrics": "a", "interval.ms": "100"}])
    assert found == (Subscription(("a",), 100) if matches else Subscription((), 300_000))


def test_a_client_gets_all_metrics_at_the_shortest_interval() -> None:
    first = {"metrics": "a,b", "interval.ms": "5000"}
    second = {"metrics": "b,c", "interval.ms": "700"}
    assert subscription_for(JAVA, [first, second]) == Subscription(("a", "b", "c"), 700)
    assert subscription_for(JAVA, [first, {"metrics": "*"}]) == Subscription(("*",), 5000)
    assert subscription_for(JAVA, []) == Subscription((), 300_000)


@pytest.mark.parametrize(
    ("texts", "error", "words"),
    [
        ({"metric": "a"}, InvalidSubscriptionError, "did you mean metrics"),
        ({"interval.ms": "99"}, InvalidSubscriptionError, "between 100 and 3600000"),
        ({"interval.ms": "often"}, InvalidSettingError, "must be a number"),
        ({"match": "client_id"}, InvalidSettingError, "takes NAME=PATTERN pairs"),
        ({"match": "client=x"}, InvalidSettingError, "takes NAME=PATTERN pairs"),
        ({"match": "client_id=["}, InvalidSettingError, "no regular expression"),
    ],
)
def test_what_is_refused_says_why(
    texts: dict[str, str], error: type[InvalidSettingError], words: str
) -> None:
    with pytest.raises(InvalidSettingError, match=words) as caught:
        check_client_metrics(texts)
    assert type(caught.value) is error
