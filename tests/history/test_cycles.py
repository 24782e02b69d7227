"""The search for cycles against plain reachability."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minikafka.testing.history.cycles import Edge, cycles

graphs = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda edge: edge[0] != edge[1]),
    max_size=25,
)


def reachable(edges: list[Edge], start: int) -> set[int]:
    reached: set[int] = set()
    waiting = [start]
    while waiting:
        node = waiting.pop()
        for one, two in edges:
            if one == node and two not in reached:
                reached.add(two)
                waiting.append(two)
    return reached


@given(edges=graphs)
def test_each_component_with_a_cycle_shows_one(edges: list[Edge]) -> None:
    nodes = {node for edge in edges for node in edge}
    reach = {node: reachable(edges, node) for node in nodes}
    components = {
        frozenset(other for other in reach[node] if node in reach[other])
        for node in nodes
        if node in reach[node]
    }
    found = list(cycles(edges))
    for cycle in found:
        steps = zip(cycle, [*cycle[1:], cycle[0]], strict=True)
        assert set(steps) <= set(edges)
        assert len(set(cycle)) == len(cycle)
    assert len(found) == len(components)
    assert all(sum(set(cycle) <= component for cycle in found) == 1 for component in components)


def test_a_chain_of_a_hundred_thousand_does_not_exceed_the_recursion_limit() -> None:
    size = 100_000
    chain = [(number, number + 1) for number in range(size)]
    assert list(cycles(chain)) == []
    ((*nodes,),) = cycles([*chain, (size, 0)])
    assert len(nodes) == size + 1
