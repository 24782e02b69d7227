"""Kafka's security protocols."""

from __future__ import annotations

from minikafka.security.protocols import SecurityProtocol


def test_names_say_what_happens() -> None:
    for protocol in SecurityProtocol:
        assert protocol.is_tls == protocol.value.endswith("SSL")
        assert protocol.is_sasl == protocol.value.startswith("SASL")
