"""SASL settings of listeners: what is half configured does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.broker.opening import open_broker
from minikafka.broker.security.sasl import SaslService
from minikafka.broker.settings.config import load_config
from minikafka.broker.system.clock import SystemClock
from minikafka.broker.system.start_error import StartError
from minikafka.metadata.image import MetadataImage
from minikafka.metadata.settings import InvalidSettingError
from tests.kit.in_process import options
from tests.kit.sasl import JAAS, LISTENER, PREFIX, UNSECURED, plain_settings, plain_users

LISTENERS = "listeners=SASL_PLAINTEXT://127.0.0.1:9093"
SKEWED = (
    f"{JAAS}.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredValidatorAllowableClockSkewMs="-1";'
)


class Metadata:
    image = MetadataImage()


def service(*assignments: str) -> SaslService:
    return SaslService(load_config(None, [LISTENERS, *assignments], {}), Metadata(), SystemClock())


def test_the_most_specific_setting_counts() -> None:
    found = service(
        "sasl.enabled.mechanisms=SCRAM-SHA-256",
        f"{PREFIX}sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
        "connections.max.reauth.ms=1",
        f"{PREFIX}connections.max.reauth.ms=2",
        f"{PREFIX}plain.connections.max.reauth.ms=3",
    ).of_listener(LISTENER)
    assert found is not None
    assert {name: one.reauth_ms_max for name, one in found.mechanisms.items()} == {
        "PLAIN": 3,
        "SCRAM-SHA-512": 2,
    }


@pytest.mark.parametrize(
    ("assignments", "text"),
    [
        ([], "needs one or more of PLAIN"),
        (["sasl.enabled.mechanisms=PLAIN,GSSAPI"], "needs one or more of PLAIN"),
        (
            ["sasl.enabled.mechanisms=PLAIN", f"{PREFIX}plain.sasl.jaas.config=secret"],
            "plain.sasl.jaas.config of listener SASL_PLAINTEXT is malformed",
        ),
        (
            [
                "sasl.enabled.mechanisms=SCRAM-SHA-256",
                f"{PREFIX}scram-sha-256.sasl.jaas.config={plain_users(a='secret')}",
            ],
            "must have the class ScramLoginModule",
        ),
        (["sasl.enabled.mechanisms=OAUTHBEARER"], "set sasl.oauthbearer.jwks.endpoint.url"),
        (
            [
                "sasl.enabled.mechanisms=OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url=file:/nowhere",
            ],
            "sasl.oauthbearer.jwks.endpoint.url: ",
        ),
        (
            ["sasl.enabled.mechanisms=OAUTHBEARER", "sasl.server.callback.handler.class=Mine"],
            "sasl.server.callback.handler.class=Mine",
        ),
        (
            [
                "sasl.enabled.mechanisms=OAUTHBEARER",
                f"sasl.server.callback.handler.class={UNSECURED}",
                f"{PREFIX}oauthbearer.sasl.jaas.config={SKEWED}",
            ],
            "AllowableClockSkewMs='-1' is not a number",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_named(assignments: list[str], text: str) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        service(*assignments).of_listener(LISTENER)
    assert text in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_broker_does_not_start_with_less(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"sasl\.enabled\.mechanisms"):
        open_broker(options(tmp_path, LISTENERS))


def test_no_setting_shows_its_passwords() -> None:
    config = load_config(None, [*plain_settings(alice="alice secret")], {})
    assert "alice secret" not in repr(config)
