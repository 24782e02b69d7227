"""The runner: rounds by turns, failures kept apart, and what it leaves behind."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.runner import run_all, run_one
from benchmarks.workload import Figure, Round, Run, Workload


def run_of(folder: Path, rounds: int = 3, scale: float = 1.0) -> Run:
    return Run(rounds=rounds, scale=scale, folder=folder, say=lambda _: None)


def fake(name: str, function: Callable[[Run], Iterator[Round]], rounds: int = 3) -> Workload:
    return Workload(
        name=name,
        measures="Nothing.",
        function=function,
        figures=(Figure(name="a", unit="s", of="a", at_least=1),),
        rounds=rounds,
    )


def test_sides_run_by_turns_and_each_round_has_the_measures_of_all(tmp_path: Path) -> None:
    order: list[str] = []

    def side(name: str) -> Round:
        order.append(name)
        return {name: float(len(order))}

    rounds = list(run_of(tmp_path, 2).interleaved(a=lambda: side("a"), b=lambda: side("b")))
    assert order == ["a", "b", "a", "b"]
    assert rounds == [{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 4.0}]


@pytest.mark.parametrize(("scale", "count"), [(1.0, 2000), (0.1, 200), (0.00001, 1)])
def test_a_scaled_count_is_never_zero(tmp_path: Path, scale: float, count: int) -> None:
    assert run_of(tmp_path, scale=scale).scaled(2000) == count


def test_a_fresh_folder_is_empty_and_goes_with_its_files_even_after_a_failure(
    tmp_path: Path,
) -> None:
    def fail_in_a_fresh_folder() -> None:
        with run_of(tmp_path).fresh_folder(written_bytes=3_000_000) as folder:
            assert list(folder.iterdir()) == []
            (folder / "log").write_bytes(b"x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_in_a_fresh_folder()
    assert list(tmp_path.iterdir()) == []


def test_a_failed_workload_is_reported_and_the_next_one_runs() -> None:
    def fails(_: Run) -> Iterator[Round]:
        yield {"a": 1.0}
        raise RuntimeError("the broker is gone")

    said: list[str] = []
    failed, fine = run_all(
        [fake("fails", fails), fake("fine", lambda run: iter([{"a": 1.0}] * run.rounds))],
        rounds=None,
        scale=1.0,
        say=said.append,
    )
    assert failed.error == "RuntimeError: the broker is gone"
    assert failed.rounds == [{"a": 1.0}]
    assert said == ["fails: RuntimeError: the broker is gone"]
    assert fine.is_met
    assert len(fine.rounds) == 3


def test_the_callers_rounds_override_the_workloads() -> None:
    workload = fake("fine", lambda run: iter([{"a": 1.0}] * run.rounds), rounds=9)
    result = run_one(workload, rounds=2, scale=1.0, say=lambda _: None)
    assert len(result.rounds) == 2


def test_a_run_leaves_no_files_behind() -> None:
    folders: list[Path] = []

    def writes(run: Run) -> Iterator[Round]:
        folders.append(run.folder)
        (run.folder / "log").write_bytes(b"x")
        yield {"a": 1.0}

    assert run_one(fake("writes", writes), rounds=1, scale=1.0, say=lambda _: None).is_met
    assert not folders[0].exists()


def test_a_workload_that_yields_nothing_is_a_failure() -> None:
    result = run_one(fake("empty", lambda _: iter(())), rounds=1, scale=1.0, say=lambda _: None)
    assert result.error == "ValueError: no round was measured; use at least one"
    assert not result.is_met
