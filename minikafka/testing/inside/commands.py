"""What a test may ask of its broker; `minikafka.testing.faults` is the other end."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio
import trio.testing

from minikafka.broker.rpc import operations
from minikafka.broker.rpc.errors import RpcError
from minikafka.metadata.topics import TopicReference, delete_topics
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode

from .interception import Fault

if TYPE_CHECKING:
    from minikafka.broker.broker import Broker
    from minikafka.broker.rpc.client import RpcClient

    from .clocks import MovableClock
    from .deafness import Deafness
    from .interception import Interceptor

_ROUND_TRIPS = 2
"""A request and its answer, and then what the answer brought about."""
_PING_SECONDS_MAX = 1.0
_API_BY_NAME = {one.title.lower(): one for one in ApiKey}


class Commands:
    """One broker's."""

    def __init__(
        self, broker: Broker, interceptor: Interceptor, clock: MovableClock, deafness: Deafness
    ) -> None:
        self._broker = broker
        self._interceptor = interceptor
        self._clock = clock
        self._deafness = deafness
        self._fault_count = 0

    async def run(self, name: str, arguments: dict[str, Any]) -> Any:
        """Carry out a command.

        Raises:
            ValueError: there is no such command, or its arguments make no sense.
        """
        command = getattr(self, f"do_{name}", None)
        if command is None:
            raise ValueError(f"there is no command {name!r}; are both sides of one version?")
        return await command(**arguments)

    # --- faults --------------------------------------------------------------------------------

    async def do_inject(
        self, *, api: str, error: str | None, times: int | None, **parts: Any
    ) -> int:
        self._fault_count += 1
        number = self._fault_count
        self._interceptor.faults[number] = Fault(
            number,
            _api(api),
            error=None if error is None else _error(error),
            left=times,
            **parts,
        )
        return number

    async def do_hits(self, *, number: int) -> int:
        fault = self._interceptor.faults.get(number)
        return 0 if fault is None else fault.hits

    async def do_remove_fault(self, *, number: int) -> int:
        fault = self._interceptor.faults.pop(number, None)
        return 0 if fault is None else fault.hits

    async def do_clear_faults(self) -> None:
        self._interceptor.faults.clear()
        self._interceptor.versions.clear()

    async def do_limit_versions(self, *, api: str, first: int, last: int) -> None:
        self._interceptor.versions[_api(api)] = (first, last)

    # --- requests ------------------------------------------------------------------------------

    async def do_requests(self) -> list[list[Any]]:
        return [list(one) for one in self._interceptor.seen]

    async def do_forget_requests(self) -> None:
        self._interceptor.seen.clear()

    # --- time ----------------------------------------------------------------------------------

    async def do_advance(self, *, seconds: float) -> None:
        await self._clock.advance(seconds)

    async def do_settle(self, *, nodes: list[int]) -> None:
        """Wait until other nodes have worked through what this one has sent, and answered."""
        interconnect = self._broker.interconnect
        if interconnect is None:
            return
        for _ in range(_ROUND_TRIPS):
            async with trio.open_nursery() as nursery:
                for node in nodes:
                    if interconnect.peers.is_connected(node):
                        nursery.start_soon(_ping, interconnect.peers.client(node))
        await trio.testing.wait_all_tasks_blocked()

    async def do_set_ahead(self, *, seconds: float) -> None:
        """Have the time of brokers that were started earlier, and moved."""
        self._clock.ahead_s = seconds

    # --- the log -------------------------------------------------------------------------------

    async def do_clean_logs(self) -> None:
        await self._broker.maintenance.clean_now()

    # --- everything gone -----------------------------------------------------------------------

    async def do_reset(self) -> None:
        """Delete all topics, and with the internal ones all groups and transactions."""
        broker = self._broker
        self._interceptor.faults.clear()
        self._interceptor.versions.clear()
        self._interceptor.seen.clear()
        await broker.controller.change(
            lambda: delete_topics(
                broker.image, [TopicReference(name) for name in broker.image.topics]
            )
        )

    # --- the network ---------------------------------------------------------------------------

    async def do_cut_off(self) -> list[int]:
        return self._deafness.cut_off()

    async def do_ignore(self, *, ports: list[int]) -> None:
        self._deafness.ignore(ports)

    async def do_heal(self) -> None:
        self._deafness.heal()


async def _ping(peer: RpcClient) -> None:
    with suppress(RpcError):
        await peer.call(operations.PING, None, timeout_s=_PING_SECONDS_MAX)


def _api(name: str) -> ApiKey:
    found = _API_BY_NAME.get(name.replace("_", "").lower())
    if found is None:
        known = ", ".join(sorted(one.title for one in ApiKey))
        raise ValueError(f"there is no API {name!r}; Kafka's are {known}")
    return found


def _error(name: str) -> int:
    try:
        return ErrorCode[name]
    except KeyError:
        raise ValueError(
            f"there is no error {name!r}; use Kafka's names, such as NOT_LEADER_OR_FOLLOWER"
        ) from None
