"""A host with a whole broker on it: the real shells, on a simulated disk and network."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import trio

from ...broker import lifetime
from ...broker.broker import Broker
from ...broker.handlers.cluster_view import live_brokers
from ...broker.net.connection import Connection
from ...broker.opening import BrokerOptions, open_broker
from ...broker.settings.config import load_config
from ...broker.settings.node import Endpoint
from ...broker.transport.transport import ConnectionLostError, FilePayload
from ...storage.memory_disk import MemoryDisk
from .life import LIFE, Life
from .network import HOST, Network, Note, SimulatedSocket, pass_time

PORT: Final = 9092
INTERNAL_PORT: Final = 9090
WALL_MS_FIRST: Final = 1_700_000_000_000
_RECEIVE_SIZE_BYTES: Final = 65_536
_DISK_SECONDS_MAX: Final = 0.004

_T = TypeVar("_T")


class SimulatedClock:
    """A host's clocks; they go with the simulation.

    Attributes:
        jump_ms: how far people have set the wall clock.
    """

    def __init__(self) -> None:
        self.jump_ms = 0

    def monotonic(self) -> float:
        return trio.current_time()

    def wall_ms(self) -> int:
        return WALL_MS_FIRST + int(trio.current_time() * 1000) + self.jump_ms


class SimulatedTransport:
    """A client's connection, as the broker has it (`broker.transport.transport.Transport`)."""

    def __init__(self, socket: SimulatedSocket) -> None:
        self._socket = socket
        self.peer = "/" + socket.peer_host
        self.moves = 0

    async def receive(self) -> bytes:
        try:
            return await self._socket.recv(_RECEIVE_SIZE_BYTES)
        except (OSError, trio.ClosedResourceError) as error:
            raise ConnectionLostError(str(error)) from None

    async def receive_into(self, view: memoryview) -> int:
        try:
            chunk = await self._socket.recv(len(view))
        except (OSError, trio.ClosedResourceError) as error:
            raise ConnectionLostError(str(error)) from None
        view[: len(chunk)] = chunk
        return len(chunk)

    def send_now(self, parts: list[Any]) -> list[Any]:
        """Send everything; see `Transport.send_now`."""
        try:
            for part in parts:
                self._socket.send_now(bytes(part))
        except (OSError, trio.ClosedResourceError):
            pass
        return []

    async def send(self, parts: Sequence[Any]) -> None:
        await trio.lowlevel.checkpoint()
        try:
            for part in parts:
                content = part.read() if type(part) is FilePayload else bytes(part)
                self._socket.send_now(content)
        except (OSError, trio.ClosedResourceError) as error:
            raise ConnectionLostError(str(error)) from None

    def has_peer_left(self) -> bool:
        return self._socket.has_peer_left()

    def close(self) -> None:
        self._socket.close()


class SimulatedNode:
    """A host, its disk, and the broker while it runs.

    Attributes:
        node_id: its number.
        host: its name.
        disk: what outlives its processes.
        clock: its clocks.
        life: its last process.
        opened: called with the broker of each process, before it runs.
        broker: of the last process.
        is_running: a process is there.
        is_serving: it has joined the cluster.
    """

    def __init__(self, node_id: int, seed: int, network: Network, note: Note) -> None:
        self.node_id = node_id
        self.host = host_of(node_id)
        self._seed = seed
        self.disk = MemoryDisk(random.Random(f"disk {node_id} {seed}"))
        self.clock = SimulatedClock()
        self.life = Life(self.host)
        self.opened: Callable[[Broker], None] = lambda _: None
        self.broker: Broker
        self.is_running = False
        self.is_serving = False
        self._network = network
        self._note = note
        self._disk_dice = random.Random(f"disk time {node_id} {seed}")
        self._starts = 0
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    async def run(self, settings: Sequence[str]) -> None:
        """Be a process until `kill`."""
        HOST.set(self.host)
        self._starts += 1
        self.life = Life(self.host, self._starts)
        LIFE.set(self.life)
        self._scope, self._ended = trio.CancelScope(), trio.Event()
        self.is_running = True
        self.disk.now_ms = self.clock.wall_ms()
        config = load_config(None, [*settings, f"node.id={self.node_id}"], {})
        try:
            with self._scope:
                self.broker = open_broker(
                    BrokerOptions(config, Path("/simulated")),
                    disk=self.disk,
                    rng=random.Random(f"broker {self.node_id} {self._starts} {self._seed}"),
                    clock=self.clock,
                    run_in_thread=self._run_on_disk,
                )
                self.broker.node.endpoint = Endpoint(self.host, PORT)
                self.opened(self.broker)
                async with trio.open_nursery() as nursery:
                    await nursery.start(lifetime.run, self.broker)
                    self.is_serving = True
                    self._note(f"node {self.node_id} serves")
                    await self._accept(nursery)
        finally:
            self.is_running = self.is_serving = False
            self._ended.set()

    async def _accept(self, nursery: trio.Nursery) -> None:
        listener = SimulatedSocket(self._network, self.host)
        await listener.bind((self.host, PORT))
        listener.listen()
        while True:
            accepted, _ = await listener.accept()
            connection = Connection(self.broker, SimulatedTransport(accepted))
            nursery.start_soon(connection.run)

    async def _run_on_disk(
        self, function: Callable[[], _T], /, *, abandon_on_cancel: bool = False
    ) -> _T:
        """What a worker thread does: it takes a moment, and others run meanwhile."""
        del abandon_on_cancel
        await pass_time(self._disk_dice.uniform(0.0, _DISK_SECONDS_MAX))
        return function()

    async def kill(self, *, power_loss: bool) -> None:
        """End the process as kill -9 does, or let the machine lose its power."""
        self._network.lose_power(self.host)
        self.life.go_on()
        self._scope.cancel()
        await self._ended.wait()
        self.disk.crash(power_loss=power_loss)
        if not power_loss:
            self._network.power_up(self.host)

    def power_up(self) -> None:
        """The machine has power again; `run` starts the process."""
        self._network.power_up(self.host)

    def describe(self) -> str:
        """What it knows of its partitions, for people."""
        if not self.is_serving:
            return f"node {self.node_id} does not serve"
        lines = [f"node {self.node_id}: {self.live()} live"]
        for (topic, number), one in sorted(self.broker.partitions.items()):
            image = self.broker.image.topics[topic].partitions[number]
            log = one.log
            lines.append(
                f"  {topic}-{number}: leader {image.leader} epoch {image.leader_epoch} "
                f"ISR {image.in_sync_replicas} HW {log.high_watermark} LEO {log.log_end_offset} "
                f"{log.is_offline or ''}"
            )
        return "\n".join(lines)

    def live(self) -> list[int]:
        return [one.broker_id for one in live_brokers(self.broker)]


def host_of(node_id: int) -> str:
    """The name of a broker's machine."""
    return f"broker{node_id}"
