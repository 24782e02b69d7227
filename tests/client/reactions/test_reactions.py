"""Every error code in every answer: the client does what the table says."""

from __future__ import annotations

from collections import Counter

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka_client.errors import broker_error
from tests.client.reactions import (
    consumer_group_probes,
    consumer_group_table,
    plan_probes,
    table,
    transaction_probes,
    transaction_table,
)

# Errors that brokers really answer, and that reach the application.
REPORTED = """
    OFFSET_OUT_OF_RANGE CORRUPT_MESSAGE MESSAGE_TOO_LARGE OFFSET_METADATA_TOO_LARGE
    INVALID_TOPIC_EXCEPTION RECORD_LIST_TOO_LARGE INVALID_REQUIRED_ACKS ILLEGAL_GENERATION
    INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID UNKNOWN_MEMBER_ID INVALID_SESSION_TIMEOUT
    INVALID_COMMIT_OFFSET_SIZE TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED
    CLUSTER_AUTHORIZATION_FAILED INVALID_TIMESTAMP UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE
    UNSUPPORTED_VERSION INVALID_REQUEST UNSUPPORTED_FOR_MESSAGE_FORMAT POLICY_VIOLATION
    OUT_OF_ORDER_SEQUENCE_NUMBER INVALID_PRODUCER_EPOCH SASL_AUTHENTICATION_FAILED
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED UNSUPPORTED_COMPRESSION_TYPE GROUP_MAX_SIZE_REACHED
    FENCED_INSTANCE_ID INVALID_RECORD PRODUCER_FENCED REBALANCE_IN_PROGRESS UNKNOWN_SERVER_ERROR
    FENCED_MEMBER_EPOCH STALE_MEMBER_EPOCH UNRELEASED_INSTANCE_ID UNSUPPORTED_ASSIGNOR
    INVALID_REGULAR_EXPRESSION INVALID_RECORD_STATE
"""


def rows(table: str) -> list[tuple[ErrorCode, str, str]]:
    """(code, answer, reaction) of a whole table."""
    lines = [line for line in table.splitlines() if line and not line.startswith("#")]
    answers = lines[0].split()
    found: list[tuple[ErrorCode, str, str]] = []
    reactions: list[str] = []
    for line in lines[1:]:
        if line.startswith(" "):
            for name in line.split():
                pairs = zip(answers, reactions, strict=True)
                found += [(ErrorCode[name], answer, reaction) for answer, reaction in pairs]
        else:
            reactions = line.split()
    return found


PROBES = {
    "": plan_probes.PROBES,
    "consumer group": consumer_group_probes.PROBES,
    "transaction": transaction_probes.PROBES,
}
ROWS = {
    "": rows(table.TABLE),
    "consumer group": rows(consumer_group_table.TABLE),
    "transaction": rows(transaction_table.TABLE),
}
COLUMNS = [(which, answer) for which, probes in PROBES.items() for answer in probes]


@pytest.mark.parametrize("which", PROBES)
def test_every_code_is_in_the_table_for_every_answer(which: str) -> None:
    assert {answer for _, answer, _ in ROWS[which]} == PROBES[which].keys()
    times = Counter(code for code, _, _ in ROWS[which])
    assert times == dict.fromkeys(ErrorCode, len(PROBES[which]))


@pytest.mark.parametrize(("which", "answer"), COLUMNS)
def test_the_client_does_what_the_table_says(which: str, answer: str) -> None:
    probe = PROBES[which][answer]
    wanted = {code.name: reaction for code, given, reaction in ROWS[which] if given == answer}
    assert {code.name: probe(code) for code in ErrorCode} == wanted


@pytest.mark.parametrize("answer", PROBES[""])
def test_a_code_that_is_newer_than_the_client_is_an_unknown_error(answer: str) -> None:
    newer = max(ErrorCode) + 100
    assert str(broker_error(newer)).startswith("UNKNOWN_SERVER_ERROR (-1)")
    unknown = (ErrorCode.UNKNOWN_SERVER_ERROR, answer)
    [reaction] = [reaction for *where, reaction in ROWS[""] if tuple(where) == unknown]
    assert reaction in {"fail", "stop", "refresh"}


@pytest.mark.parametrize("name", REPORTED.split())
def test_errors_for_the_application_say_what_to_do(name: str) -> None:
    text = str(broker_error(ErrorCode[name], "what was asked"))
    start, _, advice = text.partition("; ")
    assert start == f"what was asked: {name} ({ErrorCode[name].value})"
    assert advice
