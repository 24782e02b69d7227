"""The recorder: what clients say becomes a history."""

from __future__ import annotations

import json
from pathlib import Path

from minikafka.testing.history.checker import check_history
from minikafka.testing.history.operations import Assign, Crash, Operation, Outcome, Poll, Send
from minikafka.testing.history.recording import Recorder, save_history

A = ("a", 0)


def test_operations_are_recorded_in_the_order_they_ended() -> None:
    recorder = Recorder()
    first = recorder.send("p", A, b"1")
    second = recorder.send("p", A, b"2")
    third = recorder.send("p", A, b"3")
    fourth = recorder.send("p", A, b"4")
    second.ok(7)
    first.fail()
    third.info()
    recorder.note(Crash("p"))
    recorder.poll("c", {A: [(7, b"2")]})
    one, two, three, four, crash, poll = recorder.history()
    assert isinstance(one, Operation)
    assert isinstance(two, Operation)
    assert isinstance(three, Operation)
    assert isinstance(four, Operation)
    assert isinstance(poll, Operation)
    assert [event.outcome for event in (one, two, three, four)] == [
        Outcome.FAIL,
        Outcome.OK,
        Outcome.INFO,
        Outcome.INFO,
    ]
    assert two.actions == (Send(A, b"2", 7),)
    assert one.invoked < two.invoked < two.completed < one.completed < four.completed
    assert crash == Crash("p")
    assert poll.actions == (Poll({A: [(7, b"2")]}),)
    assert check_history(recorder.history()).is_good
    fourth.ok()
    assert not check_history(recorder.history()).is_good


def test_a_transaction_gathers_its_actions() -> None:
    recorder = Recorder()
    transaction = recorder.begin("p")
    transaction.actions.append(Send(A, 1, 0))
    transaction.actions.append(Send(A, 2, 1))
    transaction.ok()
    (event,) = recorder.history()
    assert isinstance(event, Operation)
    assert event.actions == (Send(A, 1, 0), Send(A, 2, 1))


def test_a_history_can_be_saved_for_people(tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.note(Assign("c", frozenset({A})))
    recorder.send("p", A, "x").ok(0)
    recorder.poll("c", {A: [(0, "x")]})
    save_history(tmp_path / "history", recorder.history())
    lines = [json.loads(line) for line in (tmp_path / "history").read_text().splitlines()]
    assert [line[:2] for line in lines] == [[0, "assign"], [1, "operation"], [2, "operation"]]
    assert lines[1][2]["actions"] == [["send", "a", 0, "x", 0]]
    assert lines[2][2]["actions"] == [["poll", "a", 0, [[0, "x"]]]]
