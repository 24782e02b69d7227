"""Carries out a schedule of faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import trio

from .life import Life
from .machines import Machines
from .network import Loss, pass_time
from .node import SimulatedNode
from .schedule import (
    CutLinks,
    Fault,
    JumpClock,
    KillBroker,
    KillProcess,
    LoseAcknowledgement,
    LosePower,
    LoseRequest,
    PauseBroker,
    PauseProcess,
    SlowLink,
)


class Victim(Protocol):
    """A process of the program, as the nemesis sees it."""

    @property
    def life(self) -> Life | None:
        """The life that it has now, if any."""
        ...

    def kill(self) -> None:
        """End it."""
        ...

    def start(self) -> None:
        """Give it another life."""
        ...


class Nemesis:
    """Lets faults happen to brokers, processes and the network between them.

    Args:
        machines: the brokers, with the network.
        victims: the processes, by name.
        tell: notes for the story what happens.
    """

    def __init__(
        self, machines: Machines, victims: Mapping[str, Victim], tell: Callable[[str], None]
    ) -> None:
        self._machines = machines
        self._network = machines.network
        self._victims = victims
        self._tell = tell
        self._cuts: Counter[tuple[str, str]] = Counter()
        self._damaged: SimulatedNode | None = None

    async def run(self, faults: Iterable[Fault]) -> None:
        """Let everything happen, and return when the last fault is over."""
        begin = trio.current_time()
        async with trio.open_nursery() as nursery:
            for fault in sorted(faults, key=lambda one: one.at_s):
                await trio.sleep_until(begin + fault.at_s)
                undo = await self._strike(fault)
                if undo is not None:
                    nursery.start_soon(self._undo, undo, fault.for_s)

    async def _undo(self, undo: Callable[[], None], for_s: float) -> None:
        await pass_time(for_s)
        undo()

    async def _strike(self, fault: Fault) -> Callable[[], None] | None:
        """Begin a fault; returns what ends it, if it takes time, and it could happen at all."""
        match fault:
            case KillBroker() | LosePower():
                return await self._kill_broker(fault)
            case PauseBroker(broker=broker):
                node = self._node(broker)
                return self._pause(node.life if node.is_running else None, fault)
            case KillProcess(process=name):
                return self._kill_process(self._victim(name), fault)
            case PauseProcess(process=name):
                return self._pause(self._victim(name).life, fault)
            case CutLinks():
                return self._cut(fault)
            case SlowLink():
                return self._slow(fault)
            case LoseRequest(process=name, api=api):
                self._network.losses.append(Loss(name, api, is_answer=False))
            case LoseAcknowledgement(process=name, api=api):
                self._network.losses.append(Loss(name, api, is_answer=True))
            case JumpClock(host=host, by_s=by_s):
                return self._jump(host, int(by_s * 1000), fault)
            case _:
                raise ValueError(f"{fault!r} is not a fault that can be carried out")
        self._tell(f"from now on: {fault}")
        return None

    def _node(self, broker: int) -> SimulatedNode:
        for node in self._machines.nodes:
            if node.node_id == broker:
                return node
        raise ValueError(f"there is no broker {broker}; brokers are 1, 2 and 3")

    def _victim(self, name: str) -> Victim:
        victim = self._victims.get(name)
        if victim is None:
            names = ", ".join(self._victims) or "none"
            raise ValueError(f"there is no process {name!r} (yet); there are: {names}")
        return victim

    # --- brokers and processes -------------------------------------------------------------------

    async def _kill_broker(self, fault: KillBroker | LosePower) -> Callable[[], None] | None:
        node, machines = self._node(fault.broker), self._machines
        is_power = isinstance(fault, LosePower)
        if machines.are_all_in_sync() and not any(one.life.is_stopped for one in machines.nodes):
            self._damaged = None
        elif is_power:
            return None
        damaged = self._damaged
        if not node.is_running or (damaged is not None and machines.counts_as_in_sync(damaged)):
            return None
        if is_power:
            self._damaged = node
        self._tell(str(fault))
        await machines.kill(node, power_loss=is_power)
        return lambda: None if node.is_running else self._start_broker(node)

    def _start_broker(self, node: SimulatedNode) -> None:
        self._tell(f"broker {node.node_id} starts")
        self._machines.start(node)

    def _kill_process(self, victim: Victim, fault: KillProcess) -> Callable[[], None] | None:
        if victim.life is None:
            return None
        self._tell(str(fault))
        victim.kill()
        return victim.start

    def _pause(self, life: Life | None, fault: Fault) -> Callable[[], None] | None:
        if life is None or life.is_stopped:
            return None
        self._tell(str(fault))
        life.stop()

        def go_on() -> None:
            if life.is_stopped and not life.is_killed:
                self._tell(f"{life} goes on")
                life.go_on()

        return go_on

    def _jump(self, host: str, by_ms: int, fault: Fault) -> Callable[[], None] | None:
        nodes = [one for one in self._machines.nodes if one.host == host]
        life = None if nodes else self._victim(host).life
        if not nodes and life is None:
            return None
        self._tell(str(fault))

        def turn(ms: int) -> None:
            for node in nodes:
                node.clock.jump_ms += ms
            if life is not None:
                life.clock_ms += ms

        turn(by_ms)
        return lambda: turn(-by_ms)

    # --- the network -----------------------------------------------------------------------------

    def _cut(self, fault: CutLinks) -> Callable[[], None]:
        self._tell(str(fault))
        links = fault.links()
        for link in links:
            self._network.cut(*link)
            self._cuts[link] += 1

        def heal() -> None:
            for link in links:
                self._cuts[link] -= 1
            self._network.join_again([link for link in links if not self._cuts[link]])
            self._tell(f"{', '.join(fault.sources)}: the network is healed")

        return heal

    def _slow(self, fault: SlowLink) -> Callable[[], None]:
        self._tell(str(fault))
        slow: Any = self._network.slow
        links = ((fault.source, fault.target), (fault.target, fault.source))
        for link in links:
            slow[link] = fault.delay_s

        def heal() -> None:
            for link in links:
                slow.pop(link, None)

        return heal
