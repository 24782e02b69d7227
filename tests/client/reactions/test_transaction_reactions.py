"""Every error code in every answer to a transaction: the client does what the table says."""

from __future__ import annotations

from collections import Counter

import pytest

from minikafka.protocol.errors import ErrorCode
from tests.client.reactions.reading import rows
from tests.client.reactions.transaction_probes import PROBES
from tests.client.reactions.transaction_table import TABLE

ROWS = rows(TABLE)


def test_every_code_is_in_the_table_for_every_answer() -> None:
    assert {answer for _, answer, _ in ROWS} == PROBES.keys()
    times = Counter(code for code, _, _ in ROWS)
    assert times == dict.fromkeys(ErrorCode, len(PROBES))


@pytest.mark.parametrize("answer", PROBES)
def test_the_client_does_what_the_table_says(answer: str) -> None:
    probe = PROBES[answer]
    wanted = {code.name: reaction for code, given, reaction in ROWS if given == answer}
    assert {code.name: probe(code) for code in ErrorCode} == wanted
