"""TLS between the client, in both APIs, and our broker behind a proxy that speaks it."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Generator

import pytest
import trio
import trustme

import minikafka_client as mk
from minikafka import testing
from minikafka_client.sync import AdminClient as BlockingAdminClient
from minikafka_client.sync import Reader, Writer
from tests.client.security.tls_proxy import TlsProxy

COUNT = 2_000
VALUE = b"v" * 500


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def proxy(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Generator[TlsProxy]:
    """A proxy before a broker that sends its clients back to the proxy."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    with TlsProxy(context) as secured:
        advertised = ["--advertise", "{}:{}".format(*secured.address)]
        directory = tmp_path_factory.mktemp("tls")
        with testing.broker(directory=directory, arguments=advertised) as broker:
            secured.broker = (broker.host, broker.port)
            yield secured


@pytest.fixture
def bootstrap(proxy: TlsProxy) -> str:
    return "{}:{}".format(*proxy.address)


@pytest.fixture
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """A client's context that trusts the proxy's certificate."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_records_travel_through_tls(
    bootstrap: str, trusting: ssl.SSLContext, new_name: Callable[[], str]
) -> None:
    topic = new_name()
    async with mk.AdminClient(bootstrap, ssl_context=trusting) as admin:
        await admin.create_topics([mk.NewTopic(topic, 1)])
    async with mk.Producer(bootstrap, ssl_context=trusting, security_protocol="SSL") as producer:
        await producer.send_many(topic, [VALUE] * COUNT)
    received = 0
    async with mk.Consumer(
        bootstrap, ssl_context=trusting, group_id=topic, auto_offset_reset="earliest"
    ) as consumer:
        await consumer.subscribe([topic])
        with trio.fail_after(60):
            while received < COUNT:
                received += len(await consumer.poll())
    assert received == COUNT


def test_the_light_reader_and_writer_speak_tls(
    bootstrap: str, trusting: ssl.SSLContext, new_name: Callable[[], str]
) -> None:
    topic = new_name()
    with BlockingAdminClient(bootstrap, ssl_context=trusting) as admin:
        admin.create_topics([mk.NewTopic(topic, 1)])
    with Writer(bootstrap, ssl_context=trusting) as writer:
        for _ in range(COUNT):
            writer.send(topic, VALUE)
    ranges = {mk.TopicPartition(topic, 0): (0, COUNT)}
    with Reader(bootstrap, ranges, ssl_context=trusting) as reader:
        assert sum(len(run) for run in reader) == COUNT


async def test_a_client_may_show_a_certificate_of_its_own(
    proxy: TlsProxy, bootstrap: str, authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    authority.issue_cert("alice@example.org", common_name="alice").configure_cert(trusting)
    async with mk.AdminClient(bootstrap, ssl_context=trusting) as admin:
        await admin.describe_cluster()
    assert any("alice" in peer for peer in proxy.peers)


async def test_a_certificate_that_is_not_trusted_is_reported_immediately(bootstrap: str) -> None:
    async with mk.AdminClient(bootstrap, security_protocol="SSL") as admin:
        with pytest.raises(mk.AuthenticationError, match="no certificate that is trusted"):
            await admin.describe_cluster()
    async with mk.Producer(bootstrap, security_protocol="SSL") as producer:
        with pytest.raises(mk.AuthenticationError), trio.fail_after(30):
            await producer.send("topic", b"v")
    async with mk.Consumer(bootstrap, security_protocol="SSL") as consumer:
        await consumer.assign([mk.TopicPartition("topic", 0)])
        with pytest.raises(mk.AuthenticationError), trio.fail_after(30):
            await consumer.poll()
    with (
        BlockingAdminClient(bootstrap, security_protocol="SSL") as blocking,
        pytest.raises(mk.AuthenticationError, match="no certificate that is trusted"),
    ):
        await trio.to_thread.run_sync(blocking.describe_cluster)


async def test_the_name_in_the_certificate_must_be_the_broker_s(
    proxy: TlsProxy, trusting: ssl.SSLContext
) -> None:
    async with mk.AdminClient(f"localhost:{proxy.address[1]}", ssl_context=trusting) as admin:
        with pytest.raises(mk.AuthenticationError, match="localhost"):
            await admin.describe_cluster()


async def test_tls_with_a_plain_broker_and_the_other_way_round_do_not_connect(
    proxy: TlsProxy, bootstrap: str, trusting: ssl.SSLContext
) -> None:
    patience = {"default_api_timeout_ms": 500, "socket_connection_setup_timeout_ms": 500}
    plain = "{}:{}".format(*proxy.broker)
    async with mk.AdminClient(plain, ssl_context=trusting, **patience) as admin:  # type: ignore[arg-type]  # all by name
        with pytest.raises((mk.ConnectionLostError, mk.RequestTimeoutError)):
            await admin.describe_cluster()
    async with mk.AdminClient(bootstrap, **patience) as admin:  # type: ignore[arg-type]  # all by name
        with pytest.raises((mk.ConnectionLostError, mk.RequestTimeoutError)):
            await admin.describe_cluster()
