"""The sticky assignor: even, sticky, and standbys on other instances."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from minikafka.coordinator.group.streams.assignor import MemberSpec, assign
from minikafka.coordinator.group.streams.tasks import Assignment, TaskId
from tests.coordinator.group.streams.streams_shell import tasks

NEW = Assignment()


def processes(**names: str) -> dict[str, MemberSpec]:
    return {member_id: MemberSpec(process_id, NEW) for member_id, process_id in names.items()}


def again(members: dict[str, MemberSpec], before: dict[str, Assignment]) -> dict[str, MemberSpec]:
    """The same members with what they have."""
    return {
        member_id: MemberSpec(spec.process_id, before.get(member_id, NEW))
        for member_id, spec in members.items()
    }


@given(
    threads=st.lists(st.integers(0, 3), min_size=1, max_size=7),
    counts=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    stateful=st.sets(st.integers(0, 3)),
    standbys=st.integers(0, 3),
    gone=st.sets(st.integers(0, 6)),
)
def test_every_task_is_assigned_once_and_evenly(
    threads: list[int], counts: list[int], stateful: set[int], standbys: int, gone: set[int]
) -> None:
    members = {f"m{n}": MemberSpec(f"p{process}", NEW) for n, process in enumerate(threads)}
    task_counts = {str(number): count for number, count in enumerate(counts)}
    copied = {str(number) for number in stateful}
    first = assign(members, task_counts, copied, standbys)
    _check(members, first, task_counts, copied, standbys)
    left = {one: spec for one, spec in members.items() if int(one[1:]) not in gone}
    if left:
        second = assign(again(left, first), task_counts, copied, standbys)
        _check(left, second, task_counts, copied, standbys)
        assert assign(again(left, second), task_counts, copied, 0).items() >= {
            (one, Assignment(each.active)) for one, each in second.items()
        }


def _check(
    members: dict[str, MemberSpec],
    found: dict[str, Assignment],
    task_counts: dict[str, int],
    stateful: set[str],
    standbys: int,
) -> None:
    everything = {TaskId(one, n) for one, count in task_counts.items() for n in range(count)}
    active = [task for each in found.values() for task in each.active]
    assert len(active) == len(set(active))
    assert set(active) == everything
    sizes = [len(each.active) for each in found.values()]
    assert max(sizes) - min(sizes) <= 1
    instances = {spec.process_id for spec in members.values()}
    holders: dict[TaskId, list[str]] = {}
    copies: Counter[TaskId] = Counter()
    for member_id, each in found.items():
        assert each.warmup == frozenset()
        copies.update(each.standby)
        for task in (*each.active, *each.standby):
            holders.setdefault(task, []).append(members[member_id].process_id)
    assert all(len(set(where)) == len(where) for where in holders.values())
    for task in everything:
        wanted = min(standbys, len(instances) - 1) if task.subtopology_id in stateful else 0
        assert copies[task] == wanted


def test_tasks_stay_where_they_are() -> None:
    members = processes(A="a", B="b")
    first = assign(members, {"0": 6}, (), 0)
    second = assign(again({**members, **processes(C="c")}, first), {"0": 6}, (), 0)
    assert second["A"].active < first["A"].active
    assert second["B"].active < first["B"].active
    assert [len(each.active) for each in second.values()] == [2, 2, 2]


def test_a_task_goes_where_its_state_is() -> None:
    before = {
        "A": MemberSpec("a", Assignment(tasks(0, 0), tasks(0, 3))),
        "B": MemberSpec("b", Assignment(tasks(0, 1), tasks(0, 2))),
    }
    found = assign(before, {"0": 4}, {"0"}, 1)
    assert found["A"] == Assignment(tasks(0, 0, 3), tasks(0, 1, 2))
    assert found["B"] == Assignment(tasks(0, 1, 2), tasks(0, 0, 3))


def test_each_part_of_the_application_is_spread() -> None:
    found = assign(processes(A="a", B="b"), {"0": 2, "1": 2}, (), 0)
    for each in found.values():
        assert {task.subtopology_id for task in each.active} == {"0", "1"}


def test_nobody_gets_nothing() -> None:
    assert assign({}, {"0": 3}, (), 1) == {}
    assert assign(processes(A="a"), {}, (), 1) == {"A": NEW}
