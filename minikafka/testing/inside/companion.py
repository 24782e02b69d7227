"""What accompanies a broker that a test has started: its clocks, its listener, its ears."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING, Any

import trio

from minikafka.testing.channel import CHANNEL_VARIABLE, pack, unpack
from minikafka.testing.power import SYNCED_VARIABLE, SyncRecord

from .clocks import MovableClock, MovableTime
from .commands import AdvancingClock, Commands
from .deafness import Deafness
from .full_disk import FillableDisk
from .interception import Interceptor, MutableTransport, TamperedConnection

if TYPE_CHECKING:
    from minikafka.broker.broker import Broker
    from minikafka.broker.transport.transport import Transport

_RECEIVE_BYTES = 65_536


class Tampering:
    """What can be tampered with in a broker, in whichever process.

    Attributes:
        disk: what has to hold its data directory.
        deafness: makes the sockets with which it connects, if it is to be cut off.
    """

    def __init__(self, record: SyncRecord | None = None) -> None:
        self.disk = FillableDisk(record)
        self.deafness = Deafness()
        self._interceptor = Interceptor()

    def connect(self, broker: Broker, transport: Transport) -> TamperedConnection:
        """Make a client's connection."""
        return TamperedConnection(broker, MutableTransport(transport), self._interceptor)

    def commands(self, broker: Broker, clock: AdvancingClock) -> Commands:
        """What a test may ask for."""
        return Commands(broker, self._interceptor, clock, self.deafness, self.disk)


class TestCompanion(Tampering):
    """See `minikafka.broker.run.Companion`; ``channel`` leads to the test."""

    __test__ = False  # pytest takes the name for a test's

    def __init__(self, channel: socket.socket, record: SyncRecord | None = None) -> None:
        super().__init__(record)
        self.trio_clock = MovableClock()
        self.clock = MovableTime(self.trio_clock)
        self._channel = channel

    @classmethod
    def from_environment(cls) -> TestCompanion:
        """The companion at the end of the channel that the test has passed on.

        Raises:
            SystemExit: there is none: this is not a way for people to start a broker.
        """
        descriptor = os.environ.pop(CHANNEL_VARIABLE, "")
        if not descriptor.isdecimal():
            raise SystemExit(
                f"{CHANNEL_VARIABLE} is not set: only minikafka.testing starts brokers this way; "
                "use `minikafka serve`"
            )
        path = os.environ.pop(SYNCED_VARIABLE, "")
        return cls(socket.socket(fileno=int(descriptor)), record=SyncRecord(path) if path else None)

    async def run(self, broker: Broker) -> None:
        """Do what the test asks for, one thing after the other; its end stops the broker."""
        trio.socket.set_custom_socket_factory(self.deafness)
        commands = self.commands(broker, self.trio_clock)
        self._channel.setblocking(False)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(self._channel))
        received = bytearray()
        while True:
            try:
                piece = await stream.receive_some(_RECEIVE_BYTES)
            except trio.BrokenResourceError:
                piece = b""
            if not piece:
                os.kill(os.getpid(), signal.SIGTERM)
                return
            received += piece
            while (message := unpack(received)) is not None:
                answer = await self._answer(commands, message)
                try:
                    await stream.send_all(pack(answer))
                except trio.BrokenResourceError:
                    break

    async def _answer(self, commands: Commands, message: list[Any]) -> list[Any]:
        number, name, arguments = message
        try:
            value = await commands.run(name, arguments)
        except Exception as error:  # noqa: BLE001 - the test gets it
            return [number, None, f"{type(error).__name__}: {error}"]
        return [number, value, None]
