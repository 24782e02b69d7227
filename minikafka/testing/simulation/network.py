"""TCP between hosts that do not exist.

A connection is two queues of bytes, each with its own seeded delays. Nothing is lost inside a
connection: a link that is cut holds the bytes until it is healed, and an end that receives nothing
for `UNACKNOWLEDGED_SECONDS_MAX` gives up the connection, as TCP_USER_TIMEOUT and keepalive do. A
process that is killed resets its connections; a machine that loses its power sends nothing.

`SocketFactory` and `HostnameResolver` make trio's sockets these ones, for the tasks that have a
`HOST`.
"""

from __future__ import annotations

import errno
import random
import struct
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from socket import SHUT_RD, AddressFamily, SocketKind
from typing import Any, Final, Self, cast

import trio

HOST: Final[ContextVar[str]] = ContextVar("HOST")
"""Where the current task runs."""

UNACKNOWLEDGED_SECONDS_MAX: Final = 6.0
_DELAY_SECONDS_MIN: Final = 0.0001
_DELAY_SECONDS_MAX: Final = 0.003
_SLOW_SECONDS_MAX: Final = 0.3
"""A packet that got lost comes when it is sent again."""
_SLOW_SHARE: Final = 0.005
_FOREVER: Final = float("inf")

_SENDING_HEAD: Final = struct.Struct(">ihhi")  # size, API, version, correlation id
_ANSWER_HEAD: Final = struct.Struct(">ii")

Address = tuple[str, int]
Note = Callable[[str], None]


async def pass_time(seconds: float) -> None:
    """Let the simulated clock advance."""
    with trio.move_on_after(seconds):
        await trio.sleep_forever()


class Direction:
    """Bytes from one end of a connection to the other."""

    def __init__(self) -> None:
        self.chunks: deque[tuple[float, bytes]] = deque()  # (arrives, bytes); b"" is the end
        self.arrives_last = 0.0


@dataclass(slots=True)
class Loss:
    """The next request of a host, or the answer to it, gets lost with its connection.

    Attributes:
        host: whose request.
        api: which one by its number, None for any.
        is_answer: the broker gets the request, and its answer is lost.
    """

    host: str
    api: int | None
    is_answer: bool


class Network:
    """Hosts, their listeners and what is between them.

    Attributes:
        down: hosts without power, and since when.
        losses: requests and answers that are to be lost.
        slow: (from, to): seconds that everything takes longer.
    """

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._listeners: dict[Address, SimulatedSocket] = {}
        self._cuts: dict[tuple[str, str], float] = {}  # (from, to): since when
        self._rejects: set[tuple[str, str]] = set()
        self._ends: dict[SimulatedSocket, None] = {}
        self._changed = trio.Event()
        self._ports = 40_000
        self.down: dict[str, float] = {}
        self.losses: list[Loss] = []
        self.slow: dict[tuple[str, str], float] = {}
        self._is_over = False

    # --- faults --------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        """Let no byte pass in one direction."""
        self._cuts.setdefault((source, target), trio.current_time())
        self._wake_all()

    def reject(self, source: str, target: str) -> None:
        """Refuse all connections in one direction, and reset those of both, as firewalls do."""
        self._rejects.add((source, target))
        for end in list(self._ends):
            if {end.host, end.peer_host} == {source, target}:
                end.reset()
        self._wake_all()

    def heal(self) -> None:
        self._cuts.clear()
        self._rejects.clear()
        self._spread_resets()

    def join_again(self, links: Iterable[tuple[str, str]]) -> None:
        """End the cuts of these directions."""
        for link in links:
            self._cuts.pop(link, None)
        self._spread_resets()

    def end(self) -> None:
        """No host reaches any other from now on, and all learn so at once."""
        self._is_over = True
        for end in list(self._ends):
            end.reset()
        self._listeners.clear()
        self.heal()

    @property
    def cuts(self) -> list[tuple[str, str]]:
        return [*self._cuts, *self._rejects]

    def lose_power(self, host: str) -> None:
        """A machine vanishes without closing its connections."""
        self.down[host] = trio.current_time()
        for end in [one for one in self._ends if one.host == host]:
            end.reset()
        self._forget_listeners(host)
        self._wake_all()

    def power_up(self, host: str) -> None:
        """It answers again, and knows nothing of its connections (a killed process: at once)."""
        self.down.pop(host, None)
        self._spread_resets()

    def _spread_resets(self) -> None:
        for end in list(self._ends):
            if end.is_orphan and not self.is_cut(end.host, end.peer_host):
                end.reset()
        self._wake_all()

    def _forget_listeners(self, host: str) -> None:
        for address in [one for one in self._listeners if one[0] == host]:
            del self._listeners[address]

    def _wake_all(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()
        for end in self._ends:
            end.wake()

    # --- what sockets ask ----------------------------------------------------------------------

    def delay_s(self) -> float:
        if self._dice.random() < _SLOW_SHARE:
            return self._dice.uniform(_DELAY_SECONDS_MAX, _SLOW_SECONDS_MAX)
        return self._dice.uniform(_DELAY_SECONDS_MIN, _DELAY_SECONDS_MAX)

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts or source in self.down or target in self.down

    def unheard_since(self, here: str, there: str) -> float | None:
        """Since when nothing, or no acknowledgement, came from there; None when all is well."""
        since = [self._cuts[one] for one in ((here, there), (there, here)) if one in self._cuts]
        since += [self.down[there]] if there in self.down else []
        return min(since, default=None)

    async def arrive(self, source: str, target: str) -> None:
        """Be a packet: take its time, and wait where the link is cut."""
        self._require_going_on()
        await pass_time(self.delay_s() + self.slow.get((source, target), 0.0))
        while self.is_cut(source, target) or self.is_cut(target, source):
            await self._changed.wait()
        self._require_going_on()
        if (source, target) in self._rejects:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "rejected on the way")

    def _require_going_on(self) -> None:
        if self._is_over:
            raise OSError(errno.ENETDOWN, "the simulation is over")

    def loss_of(self, host: str, content: bytes) -> tuple[Loss, int] | None:
        """The loss that one of these requests meets, and the request's correlation id."""
        position = 0
        while self.losses and position + _SENDING_HEAD.size <= len(content):
            size, api, _, correlation_id = _SENDING_HEAD.unpack_from(content, position)
            for loss in self.losses:
                if loss.host == host and loss.api in (None, api):
                    self.losses.remove(loss)
                    return loss, correlation_id
            position += 4 + max(0, size)
        return None

    def free_port(self) -> int:
        self._ports += 1
        return self._ports

    def listen(self, listener: SimulatedSocket) -> None:
        if listener.address in self._listeners:
            raise OSError(errno.EADDRINUSE, "address in use")
        self._listeners[listener.address] = listener

    def unlisten(self, listener: SimulatedSocket) -> None:
        if self._listeners.get(listener.address) is listener:
            del self._listeners[listener.address]

    def listener(self, address: Address) -> SimulatedSocket | None:
        return self._listeners.get(address)

    def join(self, end: SimulatedSocket) -> None:
        self._ends[end] = None

    def leave(self, end: SimulatedSocket) -> None:
        self._ends.pop(end, None)


class SimulatedSocket(trio.socket.SocketType):
    """A trio socket of a host, for TCP; what has no meaning here is not implemented."""

    def __init__(self, network: Network, host: str) -> None:
        super().__init__()
        self.host = host
        self.address: Address = (host, 0)
        self.peer_host = ""
        self.is_closed = False
        self._network = network
        self._peer: SimulatedSocket | None = None
        self._incoming = Direction()
        self._backlog: deque[SimulatedSocket] = deque()
        self._is_reset = False
        self._event: trio.Event | None = None
        self._lost_answer: int | None = None
        self._has_shut_down = False

    # --- what simulations do -------------------------------------------------------------------

    def wake(self) -> None:
        """Let waiting tasks look again."""
        if self._event is not None:
            self._event.set()
            self._event = None

    def reset(self) -> None:
        """This end finds the connection reset, and sends nothing."""
        self._is_reset = True
        self._network.leave(self)
        self.wake()

    @property
    def is_orphan(self) -> bool:
        return self._peer is not None and self._peer._is_reset

    def has_peer_left(self) -> bool:
        """The next `recv` returns the end of the stream."""
        chunks, now = self._incoming.chunks, trio.current_time()
        return self._is_reset or bool(chunks and not chunks[0][1] and chunks[0][0] <= now)

    # --- sockets -------------------------------------------------------------------------------

    @property
    def family(self) -> AddressFamily:
        return AddressFamily.AF_INET

    @property
    def type(self) -> SocketKind:
        return SocketKind.SOCK_STREAM

    @property
    def proto(self) -> int:
        return 0

    @property
    def did_shutdown_SHUT_WR(self) -> bool:  # noqa: N802  # trio's name
        return self._has_shut_down

    def setsockopt(
        self, level: int, optname: int, value: object, optlen: int | None = None
    ) -> None:
        """There is nothing to set."""
        del level, optname, value, optlen

    def getsockopt(self, *_: object) -> int:  # type: ignore[override]  # nobody asks for bytes
        """Nothing was set."""
        return 0

    def fileno(self) -> int:
        """None of the operating system's."""
        return -1

    def getsockname(self) -> Address:
        return self.address

    def getpeername(self) -> Address:
        return self.peer_host, 1

    async def bind(self, address: Address) -> None:
        self.address = (self.host, address[1] or self._network.free_port())

    def listen(self, backlog: int = 0) -> None:
        del backlog
        self._network.listen(self)

    async def accept(self) -> tuple[SimulatedSocket, Address]:
        await trio.lowlevel.checkpoint()
        while not self._backlog:
            await self._wait(_FOREVER)
        accepted = self._backlog.popleft()
        return accepted, (accepted.peer_host, 1)

    async def connect(self, address: Address) -> None:
        """Reach a listener.

        Raises:
            ConnectionRefusedError: the host is up, but nothing listens.
        """
        network, there = self._network, address[0]
        await network.arrive(self.host, there)
        listener = network.listener(address)
        await network.arrive(there, self.host)
        if listener is None or listener is not network.listener(address):
            raise ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
        other = SimulatedSocket(network, there)
        other.peer_host, self.peer_host = self.host, there
        other._peer, self._peer = self, other
        network.join(self)
        network.join(other)
        listener._backlog.append(other)
        listener.wake()

    async def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Wait for bytes.

        Raises:
            ConnectionResetError: the other process ended.
            TimeoutError: nothing came through for too long.
            trio.ClosedResourceError: it was closed here.
        """
        del flags
        await trio.lowlevel.checkpoint()
        network, chunks = self._network, self._incoming.chunks
        while True:
            if self.is_closed:
                raise trio.ClosedResourceError
            if self._is_reset:
                raise ConnectionResetError(errno.ECONNRESET, "connection reset")
            now = trio.current_time()
            is_cut = network.is_cut(self.peer_host, self.host)
            if chunks and not is_cut and chunks[0][0] <= now:
                return self._take(size)
            unheard_since = network.unheard_since(self.host, self.peer_host)
            deadline = _FOREVER
            if unheard_since is not None:
                deadline = unheard_since + UNACKNOWLEDGED_SECONDS_MAX
                if deadline <= now:
                    self.close()
                    raise TimeoutError(errno.ETIMEDOUT, "connection timed out")
            if chunks and not is_cut:
                deadline = min(deadline, chunks[0][0])
            await self._wait(deadline)

    async def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Wait for bytes, as `recv`."""
        del flags
        view = memoryview(buffer).cast("B")
        content = await self.recv(nbytes or len(view))
        view[: len(content)] = content
        return len(content)

    def shutdown(self, flag: int) -> None:
        """Send nothing more (`socket.SHUT_WR`, or both): the other side finds the end."""
        if flag != SHUT_RD and not self._has_shut_down:
            self._has_shut_down = True
            if self._peer is not None and not self._is_reset:
                self._put(b"")

    def _take(self, size: int) -> bytes:
        arrives, chunk = self._incoming.chunks[0]
        if len(chunk) > size:
            self._incoming.chunks[0] = (arrives, chunk[size:])
            return chunk[:size]
        if chunk:  # the end of the stream stays
            self._incoming.chunks.popleft()
        return chunk

    async def _wait(self, deadline: float) -> None:
        if self.is_closed:
            raise trio.ClosedResourceError
        if self._event is None:
            self._event = trio.Event()
        event = self._event
        with trio.move_on_at(deadline):
            await event.wait()

    async def send(self, content: Any, flags: int = 0, /) -> int:
        """Send everything; see `send_now`."""
        del flags
        await trio.lowlevel.checkpoint()
        whole = bytes(content)
        self.send_now(whole)
        return len(whole)

    def send_now(self, content: bytes) -> None:
        """Bytes are on their way; buffers are endless.

        Raises:
            ConnectionResetError: the other process ended.
            BrokenPipeError: the other side closed the connection.
            trio.ClosedResourceError: it was closed here.
        """
        if self.is_closed:
            raise trio.ClosedResourceError
        if self._has_shut_down:
            raise BrokenPipeError(errno.EPIPE, "this side has ended its stream")
        if self._is_reset or self._peer is None:
            raise ConnectionResetError(errno.ECONNRESET, "connection reset")
        if self._peer.is_closed:
            raise BrokenPipeError(errno.EPIPE, "the other side closed the connection")
        if content and not self._peer._is_reset and not self._is_lost(content, self._peer):
            self._put(content)

    def _is_lost(self, content: bytes, peer: SimulatedSocket) -> bool:
        """Let a request or an answer get lost with its connection, if that is due."""
        network = self._network
        is_lost = (
            peer._lost_answer is not None
            and len(content) >= _ANSWER_HEAD.size
            and _ANSWER_HEAD.unpack_from(content)[1] == peer._lost_answer
        )
        if network.losses and not is_lost:
            met = network.loss_of(self.host, content)
            if met is not None and met[0].is_answer:
                self._lost_answer = met[1]
            is_lost = met is not None and not met[0].is_answer
        if is_lost:
            peer.reset()
            self.reset()
        return is_lost

    def _put(self, content: bytes) -> None:
        peer = self._peer
        assert peer is not None
        direction, network = peer._incoming, self._network
        delay_s = network.delay_s() + network.slow.get((self.host, peer.host), 0.0)
        arrives = max(trio.current_time() + delay_s, direction.arrives_last)
        direction.arrives_last = arrives
        direction.chunks.append((arrives, content))
        peer.wake()

    def close(self) -> None:
        """Close; the other side finds the end of the stream behind what was sent."""
        if self.is_closed:
            return
        is_heard = self._peer is not None and not self._is_reset and not self._peer.is_closed
        if is_heard and not self._has_shut_down:
            self._put(b"")
        self.is_closed = True
        self._network.leave(self)
        self._network.unlisten(self)
        self.wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Sockets(trio.abc.SocketFactory, trio.abc.HostnameResolver):
    """Makes trio's sockets and names those of the network."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def install(self) -> None:
        trio.socket.set_custom_socket_factory(self)
        trio.socket.set_custom_hostname_resolver(self)

    def socket(
        self,
        family: AddressFamily | int = AddressFamily.AF_INET,
        type: SocketKind | int = SocketKind.SOCK_STREAM,  # noqa: A002  # trio's name
        proto: int = 0,
    ) -> Any:
        """A socket on the current task's host."""
        del family, type, proto
        return SimulatedSocket(self._network, HOST.get())

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,  # noqa: A002  # trio's name
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        """Every name stands for itself."""
        del family, type, flags
        assert host is not None
        address = (host.decode(), int(cast("int", port)))
        return [(AddressFamily.AF_INET, SocketKind.SOCK_STREAM, proto, "", address)]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        """Not used."""
        del flags
        return str(sockaddr[0]), str(sockaddr[1])
