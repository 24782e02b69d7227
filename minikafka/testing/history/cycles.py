"""Transactions that follow from each other in a circle.

Edges between committed operations:

- *write-write*: the next value in a key's order is another operation's.
- *write-read*: a value was written by one and polled by the other.
- *process*: one was over before the next of the same process began.

Transactions of Kafka are atomic, not isolated: their writes interleave in the logs, so that a cycle
which needs a write-write edge is allowed. One of reads and process order alone is not: a process
has read what was not there yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from .anomalies import Anomaly, Findings
from .operations import Operation, Outcome, Poll
from .version_order import Observed

Edge = tuple[int, int]

_SHOWN_MAX: Final = 8


def check_cycles(observed: Observed, findings: Findings) -> None:
    """Find G0 and G1c."""
    write_write = list(_write_write(observed))
    flow = [*_write_read(observed), *_process(observed)]
    if not _only_on_cycles(write_write + flow):
        return
    known: set[int] = set()
    searches = (
        (Anomaly.WRITE_CYCLE, write_write, True),
        (Anomaly.CIRCULAR_INFORMATION_FLOW, flow, False),
        (Anomaly.CIRCULAR_INFORMATION_FLOW, write_write + flow, True),
    )
    for anomaly, edges, is_allowed in searches:
        for cycle in cycles(edges):
            if known.isdisjoint(cycle):
                known.update(cycle)
                more = "" if len(cycle) <= _SHOWN_MAX else f" and {len(cycle) - _SHOWN_MAX} more"
                text = " -> ".join(map(str, cycle[:_SHOWN_MAX])) + more
                findings.add(anomaly, None, cycle, text, is_allowed=is_allowed)


def _write_write(observed: Observed) -> Iterator[Edge]:
    for key, order in observed.orders.items():
        writers = observed.writers.get(key, {})
        before = None
        for value in order.values:
            writer = writers.get(value)
            if writer is None or writer not in observed.committed:
                continue
            if before is not None and writer != before:
                yield before, writer
            before = writer


def _write_read(observed: Observed) -> Iterator[Edge]:
    for number, event in enumerate(observed.history):
        if not isinstance(event, Operation) or event.outcome is not Outcome.OK:
            continue
        if not any(isinstance(action, Poll) for action in event.actions):
            continue
        read_from: set[int | None] = set()
        for action in event.actions:
            if isinstance(action, Poll):
                for key, records in action.records.items():
                    writers = observed.writers.get(key, {})
                    read_from.update([writers.get(value) for _, value in records])
        for writer in read_from:
            if writer is not None and writer != number and writer in observed.committed:
                yield writer, number


def _process(observed: Observed) -> Iterator[Edge]:
    last: dict[str, tuple[float, int]] = {}
    for number, event in enumerate(observed.history):
        if not isinstance(event, Operation) or number not in observed.committed:
            continue
        before = last.get(event.process)
        if before is not None and before[0] <= event.invoked:
            yield before[1], number
        if event.outcome is Outcome.OK:
            last[event.process] = (event.completed, number)


def cycles(edges: Sequence[Edge]) -> Iterator[list[int]]:
    """One shortest cycle of each strongly connected component that has one."""
    following = _only_on_cycles(edges)
    component_of = _components(following)
    looked_at: set[int] = set()
    for node in sorted(following):
        component = component_of[node]
        if component not in looked_at:
            looked_at.add(component)
            cycle = _shortest_cycle(following, component_of, node)
            if cycle:
                yield cycle


def _only_on_cycles(edges: Sequence[Edge]) -> dict[int, list[int]]:
    """Successors, without nodes that nothing leads to or that lead nowhere.

    In a good history nothing remains.
    """
    forward = _peeled(edges)
    remaining = [(one, two) for one, two in edges if one in forward and two in forward]
    backward = _peeled([(two, one) for one, two in remaining])
    following: dict[int, list[int]] = {}
    for one, two in remaining:
        if one in backward and two in backward:
            following.setdefault(one, []).append(two)
    return following


def _peeled(edges: Iterable[Edge]) -> set[int]:
    """Nodes that remain when those without predecessors are taken away again and again."""
    following: dict[int, list[int]] = {}
    waiting: dict[int, int] = {}
    for one, two in edges:
        following.setdefault(one, []).append(two)
        waiting[two] = waiting.get(two, 0) + 1
    free = [node for node in following if node not in waiting]
    while free:
        for two in following.pop(free.pop(), ()):
            waiting[two] -= 1
            if not waiting[two]:
                del waiting[two]
                free.append(two)
    return set(waiting)


def _components(following: dict[int, list[int]]) -> dict[int, int]:
    """Tarjan's strongly connected components, without recursion: node to a number."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    component_of: dict[int, int] = {}
    stack: list[int] = []
    for root in following:
        if root in index:
            continue
        work: list[tuple[int, Iterator[int]]] = []
        _enter(root, index, low, stack)
        work.append((root, iter(following[root])))
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    _enter(successor, index, low, stack)
                    work.append((successor, iter(following.get(successor, ()))))
                    break
                if successor not in component_of:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    member = -1
                    while member != node:
                        member = stack.pop()
                        component_of[member] = index[node]
    return component_of


def _enter(node: int, index: dict[int, int], low: dict[int, int], stack: list[int]) -> None:
    index[node] = low[node] = len(index)
    stack.append(node)


def _shortest_cycle(
    following: dict[int, list[int]], component_of: dict[int, int], start: int
) -> list[int]:
    """The nodes of a shortest cycle through `start`; empty if there is none."""
    came_from: dict[int, int] = {}
    level = [start]
    while level:
        reached: list[int] = []
        for node in level:
            for successor in following.get(node, ()):
                if successor == start:
                    path = [node]
                    while path[-1] != start:
                        path.append(came_from[path[-1]])
                    return path[::-1]
                if successor not in came_from and component_of[successor] == component_of[start]:
                    came_from[successor] = node
                    reached.append(successor)
        level = reached
    return []
