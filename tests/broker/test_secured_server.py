"""A server with TLS: strangers, deadlines, limits of connections, and certificates that change."""

from __future__ import annotations

import ssl
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.broker.control.request_context import ClientConnection
from minikafka.broker.net.limits import ConnectionLimits, CreationRate
from minikafka.broker.net.server import BoundListener, Server, bind, endpoint_of
from minikafka.broker.security.tls import TlsOfListener
from minikafka.broker.settings.listeners import PLAINTEXT_LISTENER, listeners_of
from minikafka.protocol.messages import metadata
from minikafka.security.principal import Principal
from tests.broker.handlers.config_requests import BROKER, SET, change
from tests.kit.certificates import Certificates
from tests.kit.in_process import BrokerUnderTest, running_broker
from tests.kit.wire import WireClient

KAFKA_REQUEST = struct.pack(">ihhihb", 11, 18, 3, 1, -1, 0)


Encrypted = trio.SSLStream[trio.SocketStream]


class Secured:
    """A server with a plain listener and one with TLS."""

    def __init__(self, under_test: BrokerUnderTest, certificates: Certificates) -> None:
        self.broker = under_test.broker
        self.server: Server = under_test.server
        self.certificates = certificates
        self.ports: dict[str, int] = {}
        self._opened: list[trio.abc.Stream] = []

    def bind(self) -> list[BoundListener]:
        bound: list[BoundListener] = []
        for one in listeners_of(self.broker.config):
            plain = bind("127.0.0.1", 0, 100)
            self.ports[one.name] = endpoint_of(plain, "").port
            tls = TlsOfListener(self.broker.config, one) if one.protocol.is_tls else None
            bound.append(BoundListener(plain, one, tls))
        return bound

    async def plain(self, listener: str = "SSL") -> trio.SocketStream:
        stream = await trio.open_tcp_stream("127.0.0.1", self.ports[listener])
        self._opened.append(stream)
        return stream

    async def encrypted(self, context: ssl.SSLContext | None = None) -> Encrypted:
        context = context or self.certificates.client_context()
        stream = Encrypted(await self.plain(), context, server_hostname="localhost")
        await stream.do_handshake()
        return stream

    async def ask(self, stream: trio.abc.Stream) -> metadata.Response:
        client = WireClient(stream)  # type: ignore[arg-type]  # any stream
        return await client.ask(metadata.Request(topics=[]), 9, metadata.Response)

    async def close(self) -> None:
        for stream in self._opened:
            await trio.aclose_forcefully(stream)


@asynccontextmanager
async def secured(tmp_path: Path, *assignments: str) -> AsyncGenerator[Secured]:
    certificates = Certificates(tmp_path)
    settings = [
        "listeners=127.0.0.1:0,SSL://127.0.0.1:0",
        f"ssl.keystore.location={certificates.keystore('broker')}",
        f"ssl.truststore.location={certificates.trusted}",
        *assignments,
    ]
    async with (
        running_broker(tmp_path / "data", *settings) as under_test,
        trio.open_nursery() as nursery,
    ):
        found = Secured(under_test, certificates)
        nursery.start_soon(found.server.serve, found.bind())
        try:
            yield found
        finally:
            found.server.stop()
            await found.close()


async def end_of(stream: trio.abc.ReceiveStream) -> bytes:
    """What comes until the other side closes."""
    try:
        return b"".join([chunk async for chunk in stream])
    except trio.BrokenResourceError:
        return b""


async def test_a_client_is_known_by_its_certificate_and_its_listener(tmp_path: Path) -> None:
    async with secured(tmp_path, "ssl.client.auth=requested") as found:
        alice = found.certificates.keystore("alice", "alice.test", common_name="alice")
        await found.ask(await found.encrypted(found.certificates.client_context(alice)))
        await found.ask(await found.encrypted())
        await found.ask(await found.plain("PLAINTEXT"))
        clients = [one.client for one in found.server.connections]
        known = {(one.listener.name, one.principal) for one in clients}
        assert known == {
            ("SSL", Principal("User", "CN=alice,OU=Unit,O=Tests")),
            ("SSL", Principal("User", "ANONYMOUS")),
            ("PLAINTEXT", Principal("User", "ANONYMOUS")),
        }


async def test_a_client_that_no_rule_names_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = "ssl.principal.mapping.rules=RULE:^CN=bob,.*$/bob/"
    async with secured(tmp_path, "ssl.client.auth=required", rules) as found:
        alice = found.certificates.keystore("alice", "alice.test", common_name="alice")
        stream = await found.encrypted(found.certificates.client_context(alice))
        assert await end_of(stream) == b""
    assert "mapping.rules matches 'CN=alice,OU=Unit,O=Tests'" in caplog.text


async def test_clients_that_speak_the_other_protocol_are_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with secured(tmp_path) as found:
        for _ in range(5):
            stream = await found.plain("SSL")
            await stream.send_all(KAFKA_REQUEST)
            assert await end_of(stream) == b""
        for _ in range(5):
            plain = await found.plain("PLAINTEXT")
            tls = trio.SSLStream(plain, found.certificates.client_context(), server_hostname="x")
            with pytest.raises(trio.BrokenResourceError):
                await tls.do_handshake()
    assert caplog.text.count("it does not speak TLS") == 1
    assert "set the client's security.protocol=SSL" in caplog.text
    assert caplog.text.count("it speaks TLS, but listener PLAINTEXT is PLAINTEXT") == 1


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00\x01\x00"])
async def test_a_handshake_has_a_deadline(
    tmp_path: Path, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with secured(tmp_path, "minikafka.login.timeout.ms=1") as found:
        stream = await found.plain()
        if said:
            await stream.send_all(said)
        assert await end_of(stream) == b""
        await found.ask(await found.plain("PLAINTEXT"))  # nothing to log in for
    assert "minikafka.login.timeout.ms" in caplog.text


async def test_half_a_frame_inside_tls_has_a_deadline(tmp_path: Path) -> None:
    async with secured(tmp_path, "minikafka.frame.timeout.ms=100") as found:
        stream = await found.encrypted()
        await stream.send_all(struct.pack(">ihhi", 5000, 0, 9, 1))
        assert await end_of(stream) == b""


async def test_frames_are_small_until_a_client_has_logged_in(tmp_path: Path) -> None:
    """Who logs in with SASL is not known yet when its first frames come."""
    async with secured(tmp_path) as found:
        stream = await found.plain("PLAINTEXT")
        await found.ask(stream)
        (connection,) = found.server.connections
        connection.client.begin_login(float("inf"))
        await stream.send_all(struct.pack(">ihhi", 600_000, 0, 9, 1))
        assert await end_of(stream) == b""


def test_who_has_logged_in_is_no_stranger() -> None:
    fresh, client = ClientConnection(), ClientConnection()
    client.begin_login(7.0)
    assert client.login_deadline == 7.0
    assert client.frame_size_bytes_max < fresh.frame_size_bytes_max
    client.principal = Principal("User", "alice")
    assert client.principal.name == "alice"
    assert client.login_deadline == fresh.login_deadline
    assert client.frame_size_bytes_max == fresh.frame_size_bytes_max


async def test_certificates_are_read_again_when_their_file_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with secured(tmp_path) as found:
        old = await found.encrypted()
        before = old.getpeercert(binary_form=True)
        path = tmp_path / "broker.pem"
        good = path.read_bytes()
        path.write_bytes(b"half a key")
        with trio.fail_after(60):
            while "keeping the certificate of before" not in caplog.text:
                await trio.testing.wait_all_tasks_blocked(0.01)
        assert (await found.encrypted()).getpeercert(binary_form=True) == before
        found.certificates.keystore("broker")
        assert path.read_bytes() != good
        with trio.fail_after(60):
            while (await found.encrypted()).getpeercert(binary_form=True) == before:
                await trio.testing.wait_all_tasks_blocked(0.01)
        await found.ask(old)


async def test_a_listener_may_have_a_limit_of_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with secured(tmp_path, "listener.name.ssl.max.connections=1") as found:
        first = await found.plain("PLAINTEXT")
        await found.ask(first)
        await found.ask(await found.encrypted())
        assert await end_of(await found.plain("SSL")) == b""
        await found.ask(await found.plain("PLAINTEXT"))
        client = WireClient(first)
        name = "listener.name.ssl.max.connections"
        assert await change(client, BROKER, "1", (name, SET, "x")) != 0
        assert await change(client, BROKER, "1", (name, SET, "2")) == 0
        await found.ask(await found.encrypted())
        assert await end_of(await found.plain("SSL")) == b""
    assert "listener.name.ssl.max.connections=1" in caplog.text


async def test_an_address_may_have_a_limit_of_its_own(tmp_path: Path) -> None:
    overrides = "max.connections.per.ip.overrides=10.0.0.1:7,127.0.0.1:1"
    async with secured(tmp_path, "max.connections.per.ip=0", overrides) as found:
        await found.ask(await found.plain("PLAINTEXT"))
        assert await end_of(await found.plain("PLAINTEXT")) == b""


async def test_who_is_refused_is_not_counted(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "max.connections=2", "max.connections.per.ip=1") as found:
        limits = ConnectionLimits(found.broker.settings, 100)
        assert limits.take(PLAINTEXT_LISTENER, "a") is None
        assert limits.take(PLAINTEXT_LISTENER, "a") == "max.connections.per.ip=1"
        assert limits.take(PLAINTEXT_LISTENER, "b") is None
        assert limits.take(PLAINTEXT_LISTENER, "c") == "max.connections=2"
        limits.give_back(PLAINTEXT_LISTENER, "a")
        assert limits.take(PLAINTEXT_LISTENER, "a") is None
        few = ConnectionLimits(found.broker.settings, 0)
        assert few.take(PLAINTEXT_LISTENER, "a") == "the limit of open files allows 0"


async def test_connections_above_the_rate_wait(tmp_path: Path) -> None:
    class Clock:
        now = 100.0

        def monotonic(self) -> float:
            return self.now

        def wall_ms(self) -> int:
            return 0

    clock = Clock()
    own = "listener.name.plaintext.max.connection.creation.rate=4"
    async with running_broker(tmp_path, "max.connection.creation.rate=10", own) as found:
        everyone = CreationRate(found.broker.settings, clock, None)
        one = CreationRate(found.broker.settings, clock, PLAINTEXT_LISTENER)
        assert [everyone.delay() for _ in range(10)] == [0.0] * 10  # a second's worth
        assert everyone.delay() == pytest.approx(0.1)
        assert [one.delay() for _ in range(4)] == [0.0] * 4
        assert one.delay() == pytest.approx(0.25)
        clock.now += 0.25
        assert one.delay() == pytest.approx(0.25)


async def test_two_thousand_half_open_handshakes_cost_little_and_keep_nobody_out(
    tmp_path: Path,
) -> None:
    """Clients that begin a handshake and stop have a socket and a few kilobytes each."""
    count = min(2000, _sockets_that_may_be_open() // 3)
    async with secured(tmp_path) as found:
        strangers = [await found.plain() for _ in range(count)]
        for number, stream in enumerate(strangers):
            if number % 2:
                await stream.send_all(b"\x16\x03\x01\x02\x00\x01\x00")
        while len(found.server.connections) < count:
            await trio.testing.wait_all_tasks_blocked()
        good = await found.encrypted()
        for _ in range(20):
            await found.ask(good)
        transports = [one for one in found.server.connections if one.client.port]
        assert len(transports) == count + 1


def _sockets_that_may_be_open() -> int:
    import resource

    return min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 6000)
