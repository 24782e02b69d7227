"""Producers that are killed in the middle of a batch or of a transaction."""

from __future__ import annotations

from typing import Final

from ..ledger import Fate
from ..matrix import Cell
from .children import Children
from .producing import Sending, note_sent, producer_options
from .stage import Stage

_VALUES_MIN: Final = 3
_VALUES_MAX: Final = 6


def kill_producer(
    stage: Stage, cell: Cell, number: int, sending: Sending, children: Children
) -> None:
    """Have a producer send some values and die; its successor is ``sending``, with the same id."""
    values = sending.name_values(stage.dice.randint(_VALUES_MIN, _VALUES_MAX))
    child = children.take(
        {
            "topic": stage.topic,
            "values": values,
            "options": producer_options(cell.producer, stage.topic),
            "bootstrap": stage.target.bootstrap,
            "properties": dict(stage.target.properties),
        }
    )
    child.wait_until_dead()
    fates = stage.ledger.fates
    for line in child.lines:
        value = line["value"]
        if line["kind"] == "send":
            sending.sent_at[value] = line["at"]
            note_sent(stage, value, 0, line["at"])
        else:
            fates[value] = Fate.TRUSTED
            text = f"{value} is acknowledged"
            stage.note("producer", "acknowledge", text, record=value, at=line["at"])
    stage.note("producer", "kill", "the producer is killed")
    stage.faults[number] = cell.fault.value
    if cell.producer.is_transactional:
        fates.update(dict.fromkeys(values, Fate.REFUSED))
        stage.ledger.transactions.append(values)
