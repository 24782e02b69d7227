"""Listeners: how settings describe them, and which addresses their clients get."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka import testing
from minikafka.broker.settings.config import load_config
from minikafka.broker.settings.listeners import Listener, listeners_of
from minikafka.metadata.records import BrokerRecord
from minikafka.metadata.records import Listener as Address
from minikafka.metadata.settings import InvalidSettingError
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import describe_cluster, find_coordinator, metadata
from minikafka.security.protocols import SecurityProtocol
from tests.kit.in_process import running_broker
from tests.kit.wire import Wire

MAP = "listener.security.protocol.map=IN:PLAINTEXT,OUT:SASL_SSL"


def parse(*assignments: str) -> tuple[Listener, ...]:
    return listeners_of(load_config(None, assignments, {}))


def test_every_listener_has_a_protocol_and_an_advertised_address() -> None:
    assert parse(
        MAP,
        "listeners=in://127.0.0.1:1,OUT://[::1]:2",
        "advertised.listeners=OUT://broker:9,IN://h:0",
    ) == (
        Listener("IN", SecurityProtocol.PLAINTEXT, "127.0.0.1", 1, ("h", 0)),
        Listener("OUT", SecurityProtocol.SASL_SSL, "::1", 2, ("broker", 9)),
    )


def test_a_listener_that_is_not_advertised_is_for_those_who_know_it() -> None:
    found = parse(MAP, "listeners=IN://a:1,OUT://b:2", "advertised.listeners=IN://c:3")
    assert [one.advertised for one in found] == [("c", 3), None]


def test_the_names_of_the_protocols_are_listeners_without_a_map() -> None:
    found = parse("listeners=a:1,SSL://a:2,SASL_PLAINTEXT://a:3,SASL_SSL://a:4")
    assert [one.protocol for one in found] == list(SecurityProtocol)


def test_one_port_may_serve_both_versions_of_ip() -> None:
    assert len(parse(MAP, "listeners=IN://127.0.0.1:1,OUT://[::1]:1")) == 2


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        (["listeners=X://a:1"], "add X:SSL"),
        (["listeners=a:1,PLAINTEXT://a:2"], "names PLAINTEXT twice"),
        (["listeners=a:1,SSL://a:1"], "the same port 1"),
        (["listeners=://a:1"], "NAME://HOST:PORT"),
        (["listeners=a:1", "advertised.listeners=SSL://a:2"], "not among listeners"),
        (["listeners=SSL://0.0.0.0:1"], "--advertise"),
        (["listener.security.protocol.map=X:TLS"], "NAME:PROTOCOL"),
        (["listener.security.protocol.map=X:SSL,x:SSL"], "names X twice"),
        (["listener.name.ssl.max.connections=1"], "for no listener of this broker"),
        (["listener.name.plaintext.num.partitions=1"], "no setting of a listener"),
        (["listener.name.plaintext=1"], "no setting of a listener"),
        (["listener.name.plaintext.max.connections=x"], "listener.name.plaintext.max.connections"),
        (["ssl.enabled.protocols=TLSv1.1"], "may hold only TLSv1.2, TLSv1.3"),
    ],
)
def test_what_is_contradictory_or_incomplete_is_refused(assignments: list[str], words: str) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        parse(*assignments)
    assert words in str(caught.value)


def test_a_setting_of_one_listener_wins_over_the_one_for_all() -> None:
    config = load_config(
        None, ["ssl.client.auth=requested", "listener.name.in.ssl.client.auth=required"], {}
    )
    assert config.value_for("IN", "ssl.client.auth") == "required"
    assert config.value_for("OUT", "ssl.client.auth") == "requested"


def test_a_broker_without_listeners_in_its_registration_is_a_plain_one() -> None:
    """So brokers of older versions registered."""
    plain = BrokerRecord(1, b"i" * 16, 1, "host", 9, "", 0)
    assert plain.address_on("PLAINTEXT") == ("host", 9)
    assert plain.address_on("SSL") is None
    several = plain._replace(listeners=(Address("SSL", "other", 10),))
    assert several.address_on("SSL") == ("other", 10)
    assert several.address_on("PLAINTEXT") is None


def addresses(wire: Wire) -> list[list[str]]:
    """What all answers that name brokers say."""
    described = wire.ask(
        describe_cluster.Request(include_cluster_authorized_operations=False),
        1,
        describe_cluster.Response,
    )
    known = wire.ask(metadata.Request(topics=None), 9, metadata.Response)
    found = wire.ask(find_coordinator.Request(key="g", key_type=0), 3, find_coordinator.Response)
    return [
        [f"{one.host}:{one.port}" for one in described.brokers],
        [f"{one.host}:{one.port}" for one in known.brokers],
        [f"{found.host}:{found.port}"],
    ]


def test_clients_get_the_addresses_of_their_listener() -> None:
    settings: dict[str, testing.Setting] = {
        "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
        "advertised.listeners": "OUT://out.test:7,IN://in.test:0",
    }
    listen = "IN://127.0.0.1:0,OUT://127.0.0.1:0"
    with testing.broker(settings, listen=listen) as broker:
        for _ in range(2):
            with Wire(broker.bootstrap_of("IN")) as wire:
                port = broker.bootstrap_of("IN").rpartition(":")[2]
                assert addresses(wire) == [[f"in.test:{port}"]] * 3
            with Wire(broker.bootstrap_of("OUT")) as wire:
                assert addresses(wire) == [["out.test:7"]] * 3
            broker.stop()
            broker.start()
        assert f"also listening on OUT://{broker.bootstrap_of('OUT')}" in broker.log()


async def test_brokers_without_the_listener_are_left_out(tmp_path: Path) -> None:
    """A client on a listener that another broker does not have cannot be sent there."""
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        broker = under_test.broker
        own = broker.image.brokers[broker.node_id]
        broker.image.brokers[broker.node_id] = own._replace(listeners=(Address("X", "h", 1),))
        old = await client.ask(metadata.Request(topics=None), 5, metadata.Response)
        new = await client.ask(metadata.Request(topics=None), 9, metadata.Response)
        assert (old.brokers, new.brokers, new.controller_id) == ([], [], -1)
        partition = old.topics[0].partitions[0]
        assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        partition = new.topics[0].partitions[0]
        assert (partition.error_code, partition.leader_id) == (ErrorCode.LISTENER_NOT_FOUND, -1)
        assert partition.offline_replicas == [broker.node_id]
