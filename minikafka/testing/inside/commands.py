"""What a test may ask of its broker; `minikafka.testing.faults` is the other end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import trio

from minikafka.broker.coordinators.runtime import CoordinatorShard
from minikafka.broker.replicas.partition import PartitionError
from minikafka.broker.rpc import operations
from minikafka.broker.rpc.errors import RpcError
from minikafka.broker.settings.addresses import parse_address
from minikafka.metadata.topics import TopicReference, delete_topics
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode

from .clocks import MovableClock
from .idle import wait_all_tasks_blocked
from .interception import Fault

if TYPE_CHECKING:
    from minikafka.broker.broker import Broker
    from minikafka.broker.coordinators.runtime import ShardRuntime
    from minikafka.broker.rpc.client import RpcClient
    from minikafka.coordinator.writes import Now
    from minikafka.testing.failpoints import FailpointName

    from .deafness import Deafness
    from .failpoints import Failpoints
    from .full_disk import FillableDisk
    from .interception import Interceptor

_ROUND_TRIPS = 2
"""A request and its answer, and then what the answer brought about."""
_PING_SECONDS_MAX = 1.0
_Shard = TypeVar("_Shard", bound=CoordinatorShard)
_API_BY_NAME = {one.title.lower(): one for one in ApiKey}


class AdvancingClock(Protocol):
    """A clock that a test moves."""

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        ...


class Commands:
    """One broker's."""

    def __init__(
        self,
        broker: Broker,
        interceptor: Interceptor,
        clock: AdvancingClock,
        deafness: Deafness,
        disk: FillableDisk,
    ) -> None:
        self._broker = broker
        self._interceptor = interceptor
        self._clock = clock
        self._deafness = deafness
        self._disk = disk
        self._fault_count = 0
        self._failpoints: Failpoints | None = None

    async def run(self, name: str, arguments: Mapping[str, Any]) -> Any:
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
        if self._failpoints is not None:
            self._failpoints.clear()

    # --- failpoints ----------------------------------------------------------------------------

    def _all_failpoints(self) -> Failpoints:
        if self._failpoints is None:
            from .failpoints import Failpoints

            self._failpoints = Failpoints()
        return self._failpoints

    async def do_set_failpoint(
        self, *, number: int, name: FailpointName, action: str, times: int | None, skip: int
    ) -> None:
        self._all_failpoints().set(number, name, action, times, skip)

    async def do_remove_failpoint(self, *, number: int) -> None:
        self._all_failpoints().remove(number)

    async def do_reached_failpoints(self) -> dict[str, int]:
        """How often each was passed; counting begins with the first call."""
        failpoints = self._all_failpoints()
        failpoints.install()
        return dict(failpoints.reached)

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
        await wait_all_tasks_blocked()

    async def do_set_ahead(self, *, seconds: float) -> None:
        """Have the time of brokers that were started earlier, and moved."""
        assert isinstance(self._clock, MovableClock)  # it is one in a process of its own
        self._clock.ahead_s = seconds

    # --- the log and the disk ------------------------------------------------------------------

    async def do_clean_logs(self) -> None:
        await self._broker.maintenance.clean_now()

    async def do_fill_disk(self) -> None:
        self._disk.is_full = True

    async def do_empty_disk(self) -> None:
        """Have room again, and use what had failed for lack of it."""
        if self._disk.is_full:
            self._disk.is_full = False
            await self._broker.maintenance.reopen_offline()

    # --- coordinators --------------------------------------------------------------------------
    #
    # A cluster asks all nodes. False: another one coordinates this, or the state is loading.

    async def do_expire_member(self, *, group: str, member: str) -> bool:
        return self._change(
            self._broker.groups.runtime,
            group,
            lambda shard, now: shard.end_sessions(group, member, now),
        )

    async def do_force_rebalance(self, *, group: str) -> bool:
        return self._change(
            self._broker.groups.runtime,
            group,
            lambda shard, now: shard.rebalance(group, "the test wants it", now),
        )

    async def do_expire_transaction(self, *, transactional_id: str) -> bool:
        return self._change(
            self._broker.transactions.runtime,
            transactional_id,
            lambda shard, now: shard.time_out(transactional_id, now),
        )

    def _change(
        self,
        runtime: ShardRuntime[_Shard],
        key: str,
        decide: Callable[[_Shard, Now], Sequence[Any]],
    ) -> bool:
        """Have the shard of a key do something, if it is here and loaded.

        Raises:
            ValueError: the shard cannot, or there is no shard anywhere yet.
        """
        if runtime.topic.name not in self._broker.image.topics:
            raise ValueError(f"{key!r} is unknown: there is no {runtime.topic.name} yet")
        try:
            number, shard = runtime.shard_of(key)
        except PartitionError:
            return False
        if shard.error is not ErrorCode.NONE:
            return False
        runtime.carry_out(number, [*decide(shard, runtime.now())])
        return True

    async def do_coordinator_partition(self, *, is_group: bool, key: str) -> list[Any]:
        """The partition that has the state of a group or a transactional id; its topic exists."""
        broker = self._broker
        runtime = broker.groups.runtime if is_group else broker.transactions.runtime
        return [runtime.topic.name, runtime.partition_of(key)]

    # --- the controller ------------------------------------------------------------------------

    async def do_is_controller(self) -> bool:
        return self._broker.controller.is_active

    async def do_move_controller(self, *, node: int | None) -> bool:
        return await self._broker.quorum.transfer_leadership(node)

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

    async def do_cut_off(self, *, clients: bool, peers: bool) -> list[int]:
        _, port = parse_address(self._broker.config.listeners[0].rpartition("://")[2])
        return self._deafness.cut_off(port, clients=clients, peers=peers)

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
